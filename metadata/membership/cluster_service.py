"""The public service `lograft.v1.Cluster` of brokers and controllers: describe the cluster, and watch its changes."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.recent_changes import MAX_REMEMBERED_RECORDS, RecentChanges
from lograft.metadata.image.records import Record
from lograft.metadata.image.state_machine import MachineListener
from lograft.metadata.membership.auto_create_topics import missing_topics
from lograft.metadata.membership.cluster_codec import TopicChoice, describe_change, describe_cluster, is_news
from lograft.proto import cluster_pb2 as pb
from lograft.proto import errors_pb2
from lograft.proto.methods import DESCRIBE_CLUSTER, WATCH_CLUSTER
from lograft.raft.errors import RaftError
from lograft.rpc.coded_error import ControllerError
from lograft.rpc.request_limits import check_item_count
from lograft.rpc.status import to_stream_error
from lograft.rpc.unary import read_request, receive_request
from lograft.runtime.network import Handler, Stream
from lograft.runtime.tasks.deadline import LINEARIZABLE_MS, Deadline, answer_ms
from lograft.runtime.tasks.retry import ExponentialWait, retrying
from lograft.runtime.world import Runtime

ALIVE_EVERY_MS = 500
LINEARIZABLE_TIMEOUT_MS = answer_ms(LINEARIZABLE_MS)
_READ_INDEX_TIMEOUT_MS = 1500
_FIRST_RETRY_MS = 50
_LAST_RETRY_MS = 500
_MAX_SHARED_ANSWERS = 64


class ImageSource(Protocol):
    """The source of the metadata: a controller's machine, or a broker's follower.

    `image` is as of `index`, which never goes back; 0: there is nothing yet.
    """

    @property
    def image(self) -> ClusterImage: ...

    @property
    def index(self) -> int: ...

    def listen(self, listener: MachineListener) -> None:
        """Report events to `listener` from now on."""
        ...


@dataclass(slots=True)
class _Watcher:
    """How much a client has received. `position` None: nothing yet."""

    choice: TopicChoice
    position: int | None
    controller_id: int | None = None


class ClusterService(MachineListener):
    """`read_index`: return an index by which everything committed before the call is applied; it may raise
    `ControllerError` or `RaftError`. `controller_id`: the active controller, as far as known here. `create`: create
    topics, waiting up to the given milliseconds; it may raise `ControllerError`."""

    def __init__(
        self,
        runtime: Runtime,
        source: ImageSource,
        cluster_id: str,
        read_index: Callable[[], Awaitable[int]],
        controller_id: Callable[[], int | None],
        create: Callable[[Sequence[str], int], Awaitable[None]] | None = None,
        max_remembered_records: int = MAX_REMEMBERED_RECORDS,
    ) -> None:
        self._runtime = runtime
        self._source = source
        self._cluster_id = cluster_id
        self._read_index = read_index
        self._controller_id = controller_id
        self._create = create
        self._recent = RecentChanges(source.index, max_remembered_records)
        self._changed = asyncio.Event()  # set once, and then another takes its place
        # What many ask for, encoded once for as long as it is the latest.
        self._shared: dict[object, bytes | None] = {}
        self._shared_as_of: tuple[int, int | None] = (0, None)
        source.listen(self)

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handlers, by method."""
        return {DESCRIBE_CLUSTER: self._serve_describe, WATCH_CLUSTER: self._serve_watch}

    # -- what the source tells

    def applied(self, index: int, records: tuple[Record, ...]) -> None:
        self._recent.add(index, records)
        self._wake_all()

    def restored(self, index: int) -> None:
        self._recent.restart(index)
        self._wake_all()

    def advanced(self, index: int) -> None:
        self._wake_all()

    def _wake_all(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    # -- describe

    async def _serve_describe(self, stream: Stream) -> None:
        request = read_request(pb.DescribeRequest, await receive_request(stream))
        if request.cluster_only:
            await stream.send(pb.ClusterDescription(cluster_id=self._cluster_id).SerializeToString())
            return
        try:
            choice = _choice(request.topics, request.include_internal)
            deadline = Deadline(self._runtime.clock, LINEARIZABLE_TIMEOUT_MS)
            if request.linearizable or request.create_missing:
                await self._catch_up(deadline)
            self._check_ready()
            if request.create_missing and self._create is not None:
                await self._create_missing(list(choice.names), deadline)
        except ControllerError as error:
            raise to_stream_error(error) from None
        description = self._share(("describe", choice.include_internal), choice, lambda: self._describe(choice))
        assert description is not None
        await stream.send(description)

    async def _create_missing(self, names: Sequence[str], deadline: Deadline) -> None:
        missing = missing_topics(self._source.image, names)
        if not missing or self._create is None:
            return
        try:
            async with asyncio.timeout(deadline.left_ms / 1000):
                await self._create(missing, deadline.left_ms)
        except TimeoutError:
            message = f"topic {missing[0]!r} could not be created within {deadline.timeout_ms} ms: try again"
            raise ControllerError(errors_pb2.UNAVAILABLE, message) from None
        await self._catch_up(deadline)

    def _describe(self, choice: TopicChoice) -> bytes:
        return self._description(choice).SerializeToString()

    def _description(self, choice: TopicChoice) -> pb.ClusterDescription:
        source = self._source
        return describe_cluster(source.image, source.index, choice, self._cluster_id, self._controller_id())

    def _check_ready(self) -> None:
        """Raise UNAVAILABLE before the first message from the quorum: until then the cluster is unknown, not empty."""
        if self._source.index == 0:
            raise ControllerError(
                errors_pb2.UNAVAILABLE, "this node has heard nothing of the cluster yet: ask another, or try again soon"
            )

    async def _catch_up(self, deadline: Deadline) -> None:
        """Return once the image has everything that was committed anywhere before this call."""
        try:
            async with asyncio.timeout(deadline.left_ms / 1000):
                index = await self._committed_index()
                while self._source.index < index:
                    await self._changed.wait()
        except TimeoutError:
            raise ControllerError(
                errors_pb2.UNAVAILABLE,
                f"no controller could tell within {deadline.timeout_ms} ms how far the metadata is committed: most "
                "may be down; try again, or ask without `linearizable` for what this node knows",
            ) from None

    async def _committed_index(self) -> int:
        """Ask until answered: a question can be lost together with the leader that it went to."""
        wait = ExponentialWait(self._runtime.rng, _FIRST_RETRY_MS, _LAST_RETRY_MS)
        return await retrying(self._runtime.clock, wait, on=_is_worth_retrying)(self._ask_committed_index)

    async def _ask_committed_index(self) -> int:
        async with asyncio.timeout(_READ_INDEX_TIMEOUT_MS / 1000):
            return await self._read_index()

    # -- watch

    async def _serve_watch(self, stream: Stream) -> None:
        request = read_request(pb.WatchRequest, await receive_request(stream))
        try:
            watcher = self._watcher(request)
            self._check_ready()
        except ControllerError as error:
            raise to_stream_error(error) from None
        await stream.send(self._news(watcher) or _alive(watcher))
        while True:
            await stream.send(await self._next_message(watcher))

    def _watcher(self, request: pb.WatchRequest) -> _Watcher:
        if request.from_index < 0:
            raise ControllerError(
                errors_pb2.INVALID_REQUEST,
                f"there is no metadata index {request.from_index}: leave from_index out, or name the last "
                "one you received",
            )
        # An index of another cluster says nothing about this one.
        is_of_here = request.cluster_id in ("", self._cluster_id)
        position = request.from_index if request.HasField("from_index") and is_of_here else None
        return _Watcher(_choice(request.topics, request.include_internal), position)

    async def _next_message(self, watcher: _Watcher) -> bytes:
        """Return the next news, as soon as there is any; or, after a while, a sign that the stream is alive."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ALIVE_EVERY_MS / 1000):
                while (news := self._news(watcher)) is None:
                    await self._changed.wait()
                return news
        return self._news(watcher) or _alive(watcher)

    def _news(self, watcher: _Watcher) -> bytes | None:
        """Return everything that the watcher has not received yet, if there is anything; it counts as received."""
        choice, position, controller_id = watcher.choice, watcher.position, self._controller_id()
        touched = self._recent.since(position) if position is not None else None
        new_controller = controller_id if controller_id != watcher.controller_id else None
        # It never goes back, not even if this node is behind what the watcher has from another.
        index = max(self._source.index, position or 0)

        def encode() -> bytes | None:
            if touched is None:
                return pb.ClusterChange(metadata_index=index, description=self._description(choice)).SerializeToString()
            change = describe_change(self._source.image, index, choice, touched)
            if new_controller is not None:
                change.controller_id = new_controller
            return change.SerializeToString() if is_news(change) else None

        what = position if touched is not None else None
        news = self._share(("watch", what, new_controller, choice.include_internal), choice, encode)
        watcher.position = index
        watcher.controller_id = controller_id if controller_id is not None else watcher.controller_id
        return news

    def _share(self, key: object, choice: TopicChoice, encode: Callable[[], bytes | None]) -> bytes | None:
        """Return what `encode` returns. Watchers of the same choice without topic names share it until something
        changes."""
        if choice.names:
            return encode()
        as_of = (self._source.index, self._controller_id())
        if as_of != self._shared_as_of or len(self._shared) >= _MAX_SHARED_ANSWERS:
            self._shared, self._shared_as_of = {}, as_of
        if key not in self._shared:
            self._shared[key] = encode()
        return self._shared[key]


def _alive(watcher: _Watcher) -> bytes:
    return pb.ClusterChange(metadata_index=watcher.position).SerializeToString()


def _is_worth_retrying(error: BaseException) -> bool:
    return isinstance(error, TimeoutError) or (isinstance(error, ControllerError | RaftError) and error.retriable)


def _choice(names: Iterable[str], include_internal: bool) -> TopicChoice:
    unique = dict.fromkeys(names)
    check_item_count(len(unique), "topics")
    return TopicChoice(unique, include_internal)
