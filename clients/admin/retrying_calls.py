"""The base of all admin methods: ask any broker, and retry until there is an answer."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from google.protobuf.message import Message
from tenacity import AsyncRetrying, RetryCallState

from lograft.clients.cluster.bootstrap import parse_bootstrap
from lograft.clients.cluster.cluster_client import ClusterClient, ClusterTimes
from lograft.clients.cluster.dropped_client import when_dropped
from lograft.clients.cluster.item_results import error_in, is_retriable
from lograft.clients.cluster.shared_cluster import join_cluster
from lograft.clients.errors import ClientClosed, LograftError, TimedOut
from lograft.clients.option_checks import check_integer
from lograft.proto import cluster_pb2, methods
from lograft.runtime.tasks.deadline import ATTEMPT_MS, Deadline
from lograft.runtime.tasks.retry import ExponentialWait, Retriable, TryAgain, retrying
from lograft.runtime.world import Runtime

DEFAULT_TIMEOUT_MS = 30_000
_DROPPED = "an admin client was dropped without being closed"
# How long the controllers may take to confirm that an answer is the latest, before a broker's own answer is used. Each
# broker only gets a part of that time: it may be cut off from all controllers while other brokers are not.
_CONFIRM_MS = 3000
_CONFIRM_ATTEMPT_MS = 1000
_MAX_TIMEOUT_MS = 2**53
_FIRST_RETRY_MS = 50
_LAST_RETRY_MS = 1000
_LEAST_ATTEMPT_MS = 2000  # the shortest useful attempt: each hop answers some time before its caller gives up

R = TypeVar("R", bound=Message)
Item = TypeVar("Item")


class AdminCalls:
    """The base class of the admin client."""

    def __init__(
        self,
        bootstrap: str | Iterable[str],
        *,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
        first_contact_ms: int | None = None,
        runtime: Runtime | None = None,
    ) -> None:
        check_integer("timeout_ms", timeout_ms, 1, _MAX_TIMEOUT_MS)
        self._bootstrap = parse_bootstrap(bootstrap, "Admin")
        self._timeout_ms = timeout_ms
        self._times = ClusterTimes(first_contact_ms=first_contact_ms)
        self._given_runtime = runtime
        self.when_refused_for_now: Callable[[LograftError], object] | None = None
        """Called with the error before each retry, so that a tool can show what it waits for."""
        self.when_not_confirmed: Callable[[], object] | None = None
        """Called each time no controller could confirm a description of the cluster and a broker's own was used."""
        self._runtime: Runtime
        self._cluster: ClusterClient | None = None
        self._keep: Callable[[], object] = lambda: None

    # -- life

    async def start(self) -> None:
        """Open the client; `async with` does it. It connects when the first request needs it."""
        if self._cluster is not None:
            return
        self._cluster = join_cluster(self._given_runtime, self._bootstrap, self._times, is_following=False)
        self._runtime = self._cluster.runtime
        if self._given_runtime is None:
            self._keep = when_dropped(self, self._cluster.close, _DROPPED)

    async def close(self) -> None:
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            self._keep()
            await cluster.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    # -- requests

    async def _describe(self, topics: Iterable[str], include_internal: bool) -> cluster_pb2.ClusterDescription:
        """Return the controllers' latest description, or a broker's own if no controller can confirm it in time."""
        request = cluster_pb2.DescribeRequest(topics=topics, include_internal=include_internal, linearizable=True)
        cluster, method, answer = self._open(), methods.DESCRIBE_CLUSTER, cluster_pb2.ClusterDescription
        async with cluster.within(self._timeout_ms, "nothing could be learnt of the cluster"):
            try:
                async with asyncio.timeout(min(_CONFIRM_MS, self._timeout_ms / 2) / 1000):
                    attempt_ms = min(_CONFIRM_ATTEMPT_MS, self._timeout_ms // 4 or 1)
                    described = await cluster.call_any(method, request, answer, repeatable=True, attempt_ms=attempt_ms)
            except TimeoutError:
                request.linearizable = False
                described = await cluster.call_any(method, request, answer, repeatable=True)
                if self.when_not_confirmed is not None:
                    self.when_not_confirmed()
                return described
            cluster.view.take_brokers(described)
            return described

    @property
    def _attempt_ms(self) -> int:
        """How long to wait for one broker before asking another."""
        return min(self._timeout_ms, ATTEMPT_MS)

    @property
    def _rng(self) -> Any:
        self._open()
        return self._runtime.rng

    def _open(self) -> ClusterClient:
        if self._cluster is None:
            raise ClientClosed("the admin client is not open: use `async with`, or await start()")
        return self._cluster

    @contextlib.asynccontextmanager
    async def _within(self, method: str) -> AsyncIterator[Deadline]:
        """Bound a call that only controllers can answer. If it times out because no controller leads, say so."""
        cluster = self._open()
        try:
            async with cluster.within(self._timeout_ms, f"{method.rpartition('/')[2]} got no answer") as deadline:
                yield deadline
        except TimedOut as error:
            if await self._has_controller():
                raise
            raise TimedOut(
                "the controller quorum has no leader, so most of its controllers are down or cut off: start them "
                f"(`lograft get quorum` shows which). {error.message}"
            ) from None

    async def _has_controller(self) -> bool:
        """Return False if a broker knows that no controller leads."""
        # "-" names no topic: with no name at all, the broker would describe all of them.
        request = cluster_pb2.DescribeRequest(topics=["-"])
        try:
            async with asyncio.timeout(_CONFIRM_ATTEMPT_MS / 1000):
                described = await self._open().call_any(
                    methods.DESCRIBE_CLUSTER, request, cluster_pb2.ClusterDescription, repeatable=True
                )
        except (TimeoutError, LograftError):
            return True
        return described.HasField("controller_id")

    async def _call(self, method: str, request: Message, response_type: type[R], *, repeatable: bool = True) -> R:
        cluster = self._open()
        async with self._within(method) as deadline:
            await cluster.identify()
            attempt_ms = self._attempt_ms if repeatable else self._timeout_ms
            return await cluster.call_any(
                method, request, response_type, repeatable=repeatable, attempt_ms=attempt_ms, deadline=deadline
            )

    async def _each(
        self,
        method: str,
        items: Sequence[Item],
        request_of: Callable[[Sequence[Item]], Message],
        response_type: type[R],
        *,
        repeatable: bool = True,
        final: type[LograftError] | tuple[()] = (),
    ) -> list[Any]:
        """Return the result of each item. Retry items refused with a retriable error, other than `final`, while time
        remains for an answer. An item whose outcome is unknown is only retried if it is `repeatable` (idempotent)."""
        cluster = self._open()
        results: dict[int, Any] = {}
        waiting = list(range(len(items)))
        async with self._within(method) as deadline:
            await cluster.identify()
            # When time runs out, the latest refusals are the results.
            with contextlib.suppress(TryAgain):
                async for attempt in self._retrying_in_time(on=()):
                    with attempt:
                        request = request_of([items[number] for number in waiting])
                        response: Any = await cluster.call_any(
                            method, request, response_type,
                            repeatable=repeatable, attempt_ms=self._attempt_ms, deadline=deadline,
                        )  # fmt: skip
                        results.update(zip(waiting, response.results, strict=True))
                        waiting = [
                            number
                            for number in waiting
                            if is_retriable(results[number], repeatable=repeatable)
                            and not isinstance(error_in(results[number]), final)
                        ]
                        if waiting:
                            self._tell_refused(error_in(results[waiting[0]]))
                            raise TryAgain
        return [results[number] for number in range(len(items))]

    def _tell_refused(self, error: LograftError | None) -> None:
        if error is not None and self.when_refused_for_now is not None:
            self.when_refused_for_now(error)

    def _retrying(self) -> AsyncRetrying:
        """Return a loop that repeats while an attempt raises `TryAgain`; the caller bounds it."""
        runtime = self._runtime
        return retrying(runtime.clock, ExponentialWait(runtime.rng, _FIRST_RETRY_MS, _LAST_RETRY_MS), on=())

    def _retrying_in_time(self, on: Retriable) -> AsyncRetrying:
        """Return a loop that begins no attempt without enough time for an answer: the previous refusal is then the
        outcome, rather than a timeout that leaves the outcome unknown."""
        runtime, deadline = self._runtime, Deadline(self._runtime.clock, self._timeout_ms)
        least_ms = min(_LEAST_ATTEMPT_MS, self._timeout_ms * 2 // 5)
        wait = ExponentialWait(runtime.rng, _FIRST_RETRY_MS, _LAST_RETRY_MS)

        def has_no_time(_: RetryCallState) -> bool:
            return deadline.left_ms <= least_ms

        def wait_in_time(_: RetryCallState) -> float:
            return min(wait.next_ms(), deadline.left_ms - least_ms)

        return retrying(runtime.clock, wait_in_time, on=on, stop=has_no_time)
