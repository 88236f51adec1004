"""A client's access to the cluster: finds it from bootstrap addresses, follows its metadata, calls its brokers."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from lograft.clients.cluster.cluster_identity import ClusterIdentity
from lograft.clients.cluster.cluster_view import ClusterView, TopicView
from lograft.clients.cluster.connections import LEAST_TOPIC, Connections
from lograft.clients.cluster.unary_call import call
from lograft.clients.errors import (
    ConnectionLost,
    InvalidRequest,
    LograftError,
    NoBrokerAvailable,
    TimedOut,
    UnknownPartition,
    UnknownTopic,
    error_of,
)
from lograft.proto import cluster_pb2 as pb
from lograft.proto.methods import DESCRIBE_CLUSTER, WATCH_CLUSTER
from lograft.runtime.network import ConnectFailed, Connection, Stream, StreamError
from lograft.runtime.observability.logging import get_logger
from lograft.runtime.tasks.cancellation import until_first_ends
from lograft.runtime.tasks.deadline import ATTEMPT_MS, LINEARIZABLE_MS, Deadline, set_timeout
from lograft.runtime.tasks.retry import ExponentialWait, TryAgain, retrying
from lograft.runtime.tasks.silence import SILENCE_LIMIT_MS, Silence
from lograft.runtime.world import Runtime

R = TypeVar("R", bound=Message)

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ClusterTimes:
    """Timeouts. `check_every_ms`: how often to compare the watched node's metadata with another node's. `attempt_ms`:
    how long one broker may take to answer before the next is asked; `describe_ms` if it answers from its own metadata,
    `linearizable_ms` if it has to ask the controllers. `first_contact_ms`: how long to look for a first broker; None:
    as long as the caller waits."""

    silence_ms: int = SILENCE_LIMIT_MS
    check_every_ms: int = 5000
    attempt_ms: int = ATTEMPT_MS
    describe_ms: int = 2000
    linearizable_ms: int = LINEARIZABLE_MS
    first_contact_ms: int | None = None
    first_retry_ms: int = 20
    last_retry_ms: int = 500


class ClusterClient:
    """`view` is the known metadata; `run` keeps it up to date for the requested topics until cancelled.

    Calls retry until there is an answer; the caller bounds them with `within`. Each request that has a `timeout_ms`
    field carries the time left for its answer.
    """

    def __init__(self, runtime: Runtime, bootstrap: Sequence[str], times: ClusterTimes | None = None) -> None:
        self.runtime = runtime
        self.identity = ClusterIdentity()
        self.view = ClusterView(self.identity)
        self.connections = Connections(runtime, identity=self.identity)
        self._bootstrap = tuple(bootstrap)
        self._times = times or ClusterTimes()
        self._wanted: dict[str, None] = {}
        self._wanted_changed = asyncio.Event()
        self._follows_all = False
        self._listeners: list[Callable[[], None]] = []
        self._preferred: str | None = None  # the broker that answered last
        self._watched: str | None = None
        self._first_asked_ms: int | None = None
        self.calls_made = 0  # excluding descriptions of the cluster
        self._better = asyncio.Event()  # another node has newer metadata than the watched one

    def listen(self, listener: Callable[[], None]) -> None:
        """Call `listener` after every change of `view`."""
        self._listeners.append(listener)

    def unlisten(self, listener: Callable[[], None]) -> None:
        self._listeners.remove(listener)

    async def close(self) -> None:
        await self.connections.close()

    # -- topics

    def known_topic(self, name: str) -> TopicView | None:
        """Return the topic if this client already follows it."""
        return self.view.topic(name)

    async def topic(self, name: str) -> TopicView:
        """Return the topic and follow it from now on. Raise `UnknownTopic` if the controllers know no such topic."""
        self.identity.check()
        known = self.view.topic(name)
        if known is not None:
            self._want(name)
            return known
        description = await self._describe(name, linearizable=False)
        if _error_in(description, name) is not None:
            # Any broker may be behind, so ask one to consult the controllers. That request may also create the topic.
            description = await self._describe(name, linearizable=True)
        return self._learn(name, description)

    async def topic_as_of_now(self, name: str) -> TopicView:
        """Like `topic`, but always ask the controllers."""
        return self._learn(name, await self._describe(name, linearizable=True))

    async def topic_with(self, name: str, topic_id: bytes, partition: int) -> TopicView:
        """Like `topic`, but if the known topic has another id or too few partitions, describe it again first: the
        caller's id and partition may come from newer metadata."""
        topic = await self.topic(name)
        if topic.id != topic_id or partition >= topic.partition_count:
            topic = await self.topic_as_of_now(name)
        return topic

    def _learn(self, name: str, description: pb.ClusterDescription) -> TopicView:
        error = _error_in(description, name)
        if error is not None:
            raise error
        self.view.take_some(description)
        self._tell()
        known = self.view.topic(name)
        if known is None:
            raise UnknownTopic(f"there is no topic {name!r}: create it first")
        self._want(name)
        return known

    def _want(self, name: str) -> None:
        if name not in self._wanted:
            self._wanted[name] = None
            self._wanted_changed.set()

    async def follow_all(self) -> None:
        """Follow all topics, including those created later, but internal topics only if requested by name."""
        request = pb.DescribeRequest(linearizable=True)
        description = await self.call_any(
            DESCRIBE_CLUSTER,
            request,
            pb.ClusterDescription,
            repeatable=True,
            attempt_ms=self._times.linearizable_ms,
        )
        self.view.take_description(description, _Everything())
        if not self._follows_all:
            self._follows_all = True
            self._wanted_changed.set()
        self._tell()

    def follow_some(self) -> None:
        """Follow only the topics requested by name."""
        if self._follows_all:
            self._follows_all = False
            self.view.forget_others(self._wanted)
            self._wanted_changed.set()

    def forget(self, names: Iterable[str]) -> None:
        """Stop following these topics."""
        for name in names:
            del self._wanted[name]
        if not self._follows_all:
            self.view.forget_others(self._wanted)
        self._wanted_changed.set()

    async def _describe(self, name: str, *, linearizable: bool) -> pb.ClusterDescription:
        request = pb.DescribeRequest(topics=[name], linearizable=linearizable, create_missing=linearizable)
        attempt_ms = self._times.linearizable_ms if linearizable else self._times.describe_ms
        return await self.call_any(
            DESCRIBE_CLUSTER, request, pb.ClusterDescription, repeatable=True, attempt_ms=attempt_ms
        )

    async def partition(self, name: str, partition: int) -> TopicView:
        """Return the topic. Raise `UnknownPartition` if it does not have this partition."""
        topic = await self.topic(name)
        if partition >= topic.partition_count:  # it may be new
            topic = await self.topic_as_of_now(name)
        if not 0 <= partition < topic.partition_count:
            raise UnknownPartition(
                f"topic {name!r} has no partition {partition}: it has 0 to {topic.partition_count - 1}"
            )
        return topic

    def hinted(self, topic_id: bytes, partition: int, error: LograftError) -> None:
        """Update the view if `error` names a newer leader."""
        if error.leader_id is not None and error.leader_epoch is not None:
            leader_id, epoch, address = error.leader_id, error.leader_epoch, error.leader_address
            if self.view.take_hint(topic_id, partition, leader_id, epoch, address):
                self._tell()

    # -- brokers

    async def identify(self) -> None:
        """Learn the cluster's id before sending it any request that another cluster could carry out as well."""
        if not self.identity.cluster_id:
            request = pb.DescribeRequest(topics=[LEAST_TOPIC], cluster_only=True)
            attempt_ms = self._times.describe_ms
            with contextlib.suppress(InvalidRequest):  # from a server without this method
                described = await self.call_any(
                    DESCRIBE_CLUSTER, request, pb.ClusterDescription, repeatable=True, attempt_ms=attempt_ms
                )
                self.identity.learn(described.cluster_id)

    async def connect(self, broker_id: int) -> Connection:
        """Return a connection to the broker. Raise `ConnectFailed` if it is unreachable or unknown."""
        address = self.view.addresses.get(broker_id)
        if address is None:
            raise ConnectFailed(f"broker {broker_id}", "its address is not known")
        return await self.connections.get(address)

    async def call_broker(self, broker_id: int, method: str, request: Message, response_type: type[R]) -> R:
        """Call the broker once. Raise `ConnectFailed`, `LograftError`, or `TimedOut` if it does not answer in time."""
        return await self._attempt(await self.connect(broker_id), method, request, response_type)

    async def call_address(
        self, address: str, method: str, request: Message, response_type: type[R], attempt_ms: int | None = None
    ) -> R:
        """Like `call_broker`, by address."""
        return await self._attempt(await self.connections.get(address), method, request, response_type, attempt_ms)

    async def call_any(
        self,
        method: str,
        request: Message,
        response_type: type[R],
        *,
        repeatable: bool,
        attempt_ms: int | None = None,
        deadline: Deadline | None = None,
        answers: type[LograftError] | tuple[()] = (),
    ) -> R:
        """Return any broker's answer. Retry on retriable errors; if an attempt's outcome is unknown, only retry a
        `repeatable` (idempotent) request. Each attempt takes at most `attempt_ms`, and its request carries no later
        deadline than `deadline`, that of the enclosing `within`. Raise errors of the class `answers` at once: they
        speak for the cluster, whichever broker sends them."""
        if self._first_asked_ms is None:
            self._first_asked_ms = self.runtime.clock.monotonic_ms()

        async def ask_each() -> R:
            for address in self._candidates():
                try:
                    connection = await self.connections.get(address)
                    answer = await self._attempt(connection, method, request, response_type, attempt_ms, deadline)
                except ConnectFailed:
                    continue
                except LograftError as error:
                    self.connections.trouble[address] = str(error)
                    if address == self._preferred:
                        self._preferred = None
                    is_answer = isinstance(error, answers)
                    if is_answer or not error.retriable or (error.outcome_unknown and not repeatable):
                        raise
                    continue
                self._preferred = address
                self.connections.trouble.pop(address, None)
                return answer
            self._check_contact()
            raise TryAgain

        return await retrying(self.runtime.clock, self._retry_wait(), on=())(ask_each)

    def _retry_wait(self) -> ExponentialWait:
        return ExponentialWait(self.runtime.rng, self._times.first_retry_ms, self._times.last_retry_ms)

    def _check_contact(self) -> None:
        """Raise once `first_contact_ms` has passed without ever reaching a broker."""
        limit_ms = self._times.first_contact_ms
        if limit_ms is None or self.connections.has_connected:
            return
        assert self._first_asked_ms is not None
        if self.runtime.clock.monotonic_ms() - self._first_asked_ms >= limit_ms:
            raise self.late(limit_ms, "no broker answered")

    async def _attempt(
        self,
        connection: Connection,
        method: str,
        request: Message,
        response_type: type[R],
        attempt_ms: int | None = None,
        deadline: Deadline | None = None,
    ) -> R:
        attempt_ms = attempt_ms or self._times.attempt_ms
        left_ms = attempt_ms if deadline is None else min(attempt_ms, deadline.left_ms)
        set_timeout(request, left_ms)
        self.calls_made += method != DESCRIBE_CLUSTER
        # If the deadline passes first, let the enclosing `within` raise: its error names the operation.
        timeout = asyncio.timeout(attempt_ms / 1000 if left_ms == attempt_ms else None)
        try:
            async with timeout:
                return await call(connection, method, request, response_type)
        except TimeoutError:
            if not timeout.expired():
                raise
            raise TimedOut(f"no answer within {attempt_ms} ms") from None

    def _candidates(self) -> list[str]:
        """Return the brokers to ask, in this order: the last one that answered, those without trouble, others."""
        brokers = list(dict.fromkeys([*self.view.addresses.values(), *self._bootstrap]))
        self.runtime.rng.shuffle(brokers)
        trouble, is_open = self.connections.trouble, self.connections.is_open
        brokers.sort(key=lambda each: (each != self._preferred, each in trouble, not is_open(each)))
        return brokers

    @contextlib.asynccontextmanager
    async def within(self, timeout_ms: float, what: str) -> AsyncIterator[Deadline]:
        """Bound the block, and yield its deadline for the calls inside. Raise `NoBrokerAvailable` or `TimedOut` with
        `what` was not done and why. If any broker was asked, raise `TimedOut` even if no broker is reachable now,
        because the request may have been carried out."""
        asked = self.calls_made
        timeout = asyncio.timeout(timeout_ms / 1000)
        try:
            async with timeout:
                yield Deadline(self.runtime.clock, int(timeout_ms))
        except TimeoutError:
            if not timeout.expired():
                raise
            raise self.late(timeout_ms, what, was_asked=self.calls_made > asked) from None

    def late(self, timeout_ms: float, what: str, *, was_asked: bool = False) -> LograftError:
        """Return the error for a request that was not done in time. `was_asked`: it was sent to a broker."""
        brokers, trouble = self._candidates(), dict(self.connections.trouble)
        is_reached = self._is_reached()
        if not is_reached:
            trouble |= {address: "no answer" for address in brokers if address not in trouble}
        reasons = "; ".join(f"{address}: {reason}" for address, reason in trouble.items())
        message = f"{what} within {timeout_ms:g} ms" + (f" ({reasons})" if reasons else "")
        if is_reached or was_asked:
            return TimedOut(message)
        return NoBrokerAvailable(
            f"{message}: check that the cluster runs, that its brokers listen for clients on "
            f"{', '.join(self._bootstrap)}, and that no firewall is between"
        )

    def _is_reached(self) -> bool:
        """Return True if a connection to any broker is open."""
        return any(map(self.connections.is_open, self._candidates()))

    # -- following

    async def run(self) -> None:
        """Follow the requested topics until cancelled. Raise `WrongCluster` if another cluster replaced this one."""
        wait = self._retry_wait()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._check_others(), name="metadata-check")
            while True:
                while not self._wanted and not self._follows_all:
                    await self._wanted_changed.wait()
                    self._wanted_changed.clear()
                self._watched = self._next_watched()
                self._better.clear()
                try:
                    await self._watch(self._watched, wait)
                except (ConnectFailed, LograftError, StreamError, DecodeError) as error:
                    self.identity.check()
                    log.info("metadata_source_failed", address=self._watched, reason=str(error))
                    await self.runtime.clock.sleep_ms(wait.next_ms())

    def _next_watched(self) -> str:
        """Return a broker other than the watched one that failed, if there is one; after `_better`, the best one."""
        candidates = self._candidates()
        others = [address for address in candidates if address != self._watched]
        if self._better.is_set() or self._watched is None or not others:
            return candidates[0]
        return others[0]

    async def _watch(self, address: str, wait: ExponentialWait) -> None:
        """Apply this node's changes until it is silent, gone or behind another node, or the wanted topics change."""
        connection = await self.connections.get(address)
        silence = Silence(self.runtime.clock, self._times.silence_ms)
        self._wanted_changed.clear()
        asked = self._asked()
        stream = await self._open_watch(connection, asked)
        await until_first_ends(
            self._take_all(stream, asked, silence, wait),
            self._tire(silence),
            connection.broken.wait(),
            self._better.wait(),
            self._wanted_changed.wait(),
        )

    def _asked(self) -> "dict[str, None] | _Everything":
        return _Everything() if self._follows_all else dict(self._wanted)

    async def _open_watch(self, connection: Connection, asked: "dict[str, None] | _Everything") -> Stream:
        stream = connection.open(WATCH_CLUSTER)
        request = pb.WatchRequest(topics=asked)
        # The view has all these topics as of its index or later, so later changes suffice.
        if self.view.index:
            request.from_index = self.view.index
            request.cluster_id = self.identity.cluster_id
        await stream.send(request.SerializeToString())
        await stream.half_close()
        return stream

    async def _take_all(self, stream: Stream, asked: Container[str], silence: Silence, wait: ExponentialWait) -> None:
        while (data := await stream.receive()) is not None:
            silence.heard()
            wait.succeeded()
            self._take(pb.ClusterChange.FromString(data), asked)
        raise ConnectionLost("the broker ended the stream")

    async def _tire(self, silence: Silence) -> None:
        await silence.too_long()
        raise TimedOut(f"nothing heard for {self._times.silence_ms} ms")

    def _take(self, change: pb.ClusterChange, asked: Container[str]) -> bool:
        """Apply the change. Return True if it was newer than the view and not empty. `asked`: the topics it covers;
        the wanted topics may have changed since."""
        is_newer = change.metadata_index > self.view.index
        has_news = change.HasField("description") or any(
            (change.brokers, change.removed_brokers, change.topics, change.deleted_topics)
        )
        self.view.take_change(change, asked)
        if has_news:
            self._tell()
        return is_newer and has_news

    async def _check_others(self) -> None:
        """Compare with another node periodically: the watched one may be cut off from the controllers unawares."""
        while True:
            await self.runtime.clock.sleep_ms(self._times.check_every_ms)
            others = [address for address in self._known_addresses() if address != self._watched]
            if not (self._wanted or self._follows_all) or not others:
                continue
            address = self.runtime.rng.choice(others)
            with contextlib.suppress(ConnectFailed, LograftError, StreamError, DecodeError, TimeoutError):
                async with asyncio.timeout(self._times.silence_ms / 1000):
                    if await self._check(address):
                        self._preferred = address
                        self._better.set()

    async def _check(self, address: str) -> bool:
        connection = await self.connections.get(address)
        asked = self._asked()
        stream = await self._open_watch(connection, asked)
        try:
            data = await stream.receive()
        finally:
            stream.reset()
        return data is not None and self._take(pb.ClusterChange.FromString(data), asked)

    def _known_addresses(self) -> Iterable[str]:
        return self.view.addresses.values() or self._bootstrap

    def _tell(self) -> None:
        for listener in list(self._listeners):
            listener()


class _Everything:
    """Contains every topic name. Iterates over none, because a request without names means all topics to a broker."""

    def __contains__(self, name: object) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(())


def _error_in(description: pb.ClusterDescription, name: str) -> LograftError | None:
    for topic in description.topics:
        if topic.name == name and topic.HasField("error"):
            return error_of(topic.error)
    return None
