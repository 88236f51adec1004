"""Admin requests that any broker accepts and forwards to the active controller, and their answers.

Each attempt at a controller names the time that is left: finding the active one takes some of it.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from google.protobuf.message import Message

from lograft.metadata.controller.services.admin_handler import time_to_answer_ms
from lograft.metadata.membership.controller_client import ControllerClient
from lograft.proto import admin_pb2 as pb
from lograft.proto import errors_pb2, methods
from lograft.proto.admin_pb2 import CreateTopicsRequest
from lograft.rpc.coded_error import ControllerError
from lograft.rpc.status import to_stream_error
from lograft.rpc.unary import read_request, receive_request
from lograft.runtime.network import Handler, Stream, StreamError
from lograft.runtime.rng import Rng
from lograft.runtime.tasks.deadline import Deadline, with_timeout
from lograft.runtime.world import Runtime

MAX_IN_FLIGHT = 256


@dataclass(frozen=True, slots=True)
class ForwardedMethod:
    """A method's request type, and whether making a request twice is as good as once."""

    request_type: type[Message]
    repeatable: bool


FORWARDED: Mapping[str, ForwardedMethod] = {
    # Each new topic has its id before it is sent, so that the controller recognises a topic that it has created
    # already.
    methods.CREATE_TOPICS: ForwardedMethod(pb.CreateTopicsRequest, repeatable=True),
    methods.DELETE_TOPICS: ForwardedMethod(pb.DeleteTopicsRequest, repeatable=False),
    methods.CREATE_PARTITIONS: ForwardedMethod(pb.CreatePartitionsRequest, repeatable=False),
    methods.DESCRIBE_CONFIGS: ForwardedMethod(pb.DescribeConfigsRequest, repeatable=True),
    methods.ALTER_CONFIGS: ForwardedMethod(pb.AlterConfigsRequest, repeatable=False),
    methods.ALTER_REASSIGNMENTS: ForwardedMethod(pb.AlterReassignmentsRequest, repeatable=False),
    methods.LIST_REASSIGNMENTS: ForwardedMethod(pb.ListReassignmentsRequest, repeatable=True),
    methods.ELECT_LEADERS: ForwardedMethod(pb.ElectLeadersRequest, repeatable=False),
    methods.UNREGISTER_BROKER: ForwardedMethod(pb.UnregisterBrokerRequest, repeatable=False),
    methods.DESCRIBE_QUORUM: ForwardedMethod(pb.DescribeQuorumRequest, repeatable=True),
    methods.ADD_VOTER: ForwardedMethod(pb.AddVoterRequest, repeatable=False),
    methods.REMOVE_VOTER: ForwardedMethod(pb.RemoveVoterRequest, repeatable=False),
    methods.REPLACE_VOTER: ForwardedMethod(pb.ReplaceVoterRequest, repeatable=False),
    methods.TRANSFER_LEADERSHIP: ForwardedMethod(pb.TransferLeadershipRequest, repeatable=False),
}


class AdminForwarding:
    """Relays requests unchanged except for their `timeout_ms`, and answers and errors as they come, within the time
    that the request's `timeout_ms` leaves."""

    def __init__(self, runtime: Runtime, client: ControllerClient, max_in_flight: int = MAX_IN_FLIGHT) -> None:
        self._runtime = runtime
        self._client = client
        self._max_in_flight = max_in_flight
        self._in_flight = 0

    def handlers(self, names: Iterable[str] = FORWARDED) -> dict[str, Handler]:
        """Return the handlers for a broker's server, by method."""
        return {name: self._handler(name, FORWARDED[name]) for name in names}

    def _handler(self, name: str, forwarded: ForwardedMethod) -> Handler:
        async def serve(stream: Stream) -> None:
            data = await receive_request(stream)
            request = read_request(forwarded.request_type, data)
            if isinstance(request, CreateTopicsRequest) and give_ids(request, self._runtime.rng):
                data = request.SerializeToString()
            await stream.send(await self._relay(name, forwarded, data, _time_to_answer_ms(request)))

        return serve

    async def _relay(self, name: str, forwarded: ForwardedMethod, data: bytes, timeout_ms: int) -> bytes:
        if self._in_flight >= self._max_in_flight:
            message = f"{self._in_flight} requests are waiting for the controller already: try again later"
            raise to_stream_error(ControllerError(errors_pb2.UNAVAILABLE, message))
        self._in_flight += 1
        deadline = Deadline(self._runtime.clock, timeout_ms)

        def request() -> bytes:
            return with_timeout(forwarded.request_type, data, deadline.left_ms)

        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await self._client.call_bytes(name, request, repeatable=forwarded.repeatable)
        except TimeoutError:
            raise self._timed_out(timeout_ms) from None
        finally:
            self._in_flight -= 1

    def _timed_out(self, timeout_ms: int) -> StreamError:
        cause = f" ({self._client.trouble})" if self._client.trouble else ""
        message = (
            f"no active controller has answered within {timeout_ms} ms{cause}: look whether it was done, then repeat it"
        )
        return to_stream_error(ControllerError(errors_pb2.TIMED_OUT, message))


def _time_to_answer_ms(request: Message) -> int:
    try:
        return time_to_answer_ms(request)
    except ControllerError as error:
        raise to_stream_error(error) from None


def give_ids(request: CreateTopicsRequest, rng: Rng) -> bool:
    """Give each new topic without an id one. Return whether there was any."""
    nameless = [topic for topic in request.topics if not topic.topic_id]
    for topic in nameless:
        topic.topic_id = rng.uuid().bytes
    return bool(nameless)
