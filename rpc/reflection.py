"""gRPC's server reflection: serves our `.proto` files to clients that lack them, such as grpcurl."""

from collections.abc import Iterable, Iterator, Mapping

from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pool import Default
from google.protobuf.message import DecodeError
from grpc_reflection.v1alpha.reflection_pb2 import (
    ErrorResponse,
    ExtensionNumberResponse,
    FileDescriptorResponse,
    ListServiceResponse,
    ServerReflectionRequest,
    ServerReflectionResponse,
    ServiceResponse,
)

from lograft.rpc.health import SERVICE, HealthService
from lograft.runtime.network import Handler, Status, Stream, StreamError

# Both are the same messages under two names; older clients know only the second.
METHODS = (
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
)


def public_services(methods: Iterable[str]) -> list[str]:
    """Return the services that `methods` belong to, without internal ones."""
    services = dict.fromkeys(method.split("/")[1] for method in methods)
    return sorted(service for service in services if not _is_private(service))


def _is_private(name: str) -> bool:
    return ".internal." in name


class ReflectionService:
    """Describes `services`, and every public file in the descriptor pool."""

    def __init__(self, services: Iterable[str]) -> None:
        self._services = sorted(services)
        self._pool = Default()

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handlers for the node's server, by method."""
        return dict.fromkeys(METHODS, self._serve)

    async def _serve(self, stream: Stream) -> None:
        while (data := await stream.receive()) is not None:
            try:
                request = ServerReflectionRequest.FromString(data)
            except DecodeError:
                raise StreamError(Status.INVALID_ARGUMENT, "not a ServerReflectionRequest") from None
            await stream.send(self._answer(request).SerializeToString())

    def _answer(self, request: ServerReflectionRequest) -> ServerReflectionResponse:
        answer = ServerReflectionResponse(valid_host=request.host, original_request=request)
        question = request.WhichOneof("message_request")
        try:
            match question:
                case "file_by_filename":
                    self._tell_file(answer, self._pool.FindFileByName(request.file_by_filename))
                case "file_containing_symbol":
                    self._tell_file(answer, self._file_with(request.file_containing_symbol))
                case "file_containing_extension":
                    wanted = request.file_containing_extension
                    extended = self._pool.FindMessageTypeByName(wanted.containing_type)
                    extension = self._pool.FindExtensionByNumber(extended, wanted.extension_number)
                    self._tell_file(answer, self._pool.FindFileContainingSymbol(extension.full_name))
                case "all_extension_numbers_of_type":
                    self._tell_extensions(answer, request.all_extension_numbers_of_type)
                case "list_services":
                    services = [ServiceResponse(name=name) for name in self._services]
                    answer.list_services_response.CopyFrom(ListServiceResponse(service=services))
                case _:
                    _refuse(answer, Status.INVALID_ARGUMENT, "a request that asks for nothing")
        except KeyError:
            _refuse(answer, Status.NOT_FOUND, f"there is no such {question}")
        return answer

    def _file_with(self, symbol: str) -> FileDescriptor:
        try:
            return self._pool.FindFileContainingSymbol(symbol)
        except KeyError:
            # The pool does not index methods, but it does index their services.
            service = self._pool.FindServiceByName(symbol.rpartition(".")[0])
            return service.FindMethodByName(symbol.rpartition(".")[2]).containing_service.file

    def _tell_file(self, answer: ServerReflectionResponse, file: FileDescriptor) -> None:
        """Answer with the file and all its imports, so that the client need not ask again."""
        if _is_private(file.package):
            raise KeyError(file.name)
        files = [one.serialized_pb for one in with_imports(file)]
        answer.file_descriptor_response.CopyFrom(FileDescriptorResponse(file_descriptor_proto=files))

    def _tell_extensions(self, answer: ServerReflectionResponse, name: str) -> None:
        extensions = self._pool.FindAllExtensions(self._pool.FindMessageTypeByName(name))
        numbers = sorted(extension.number for extension in extensions)
        answer.all_extension_numbers_response.CopyFrom(
            ExtensionNumberResponse(base_type_name=name, extension_number=numbers)
        )


def with_imports(file: FileDescriptor) -> Iterator[FileDescriptor]:
    """Yield the file, and each that it imports, directly or not, once."""
    found = {file.name: file}
    waiting = [file]
    while waiting:
        one = waiting.pop()
        yield one
        for imported in one.dependencies:
            if imported.name not in found:
                found[imported.name] = imported
                waiting.append(imported)


def _refuse(answer: ServerReflectionResponse, status: Status, message: str) -> None:
    answer.error_response.CopyFrom(ErrorResponse(error_code=status.value, error_message=message))


def with_standard_services(handlers: Mapping[str, Handler]) -> tuple[dict[str, Handler], HealthService]:
    """Return the handlers with those of the standard services added, and the health service."""
    services = public_services(handlers)
    health = HealthService(services)
    # The newer reflection service has no file of its own to describe.
    reflection = ReflectionService([*services, *public_services([*health.handlers(), METHODS[-1]])])
    assert SERVICE not in services
    return {**handlers, **health.handlers(), **reflection.handlers()}, health
