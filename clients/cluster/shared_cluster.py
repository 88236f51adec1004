"""The cluster state that all clients of one event loop share: connections, and one metadata stream.

A thousand clients with a metadata stream each put more load on the cluster than their records did: streams were not
answered in time, each client opened another, and in the end none was answered.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any

from lograft.clients.cluster.background_task import open_runtime
from lograft.clients.cluster.cluster_client import ClusterClient, ClusterTimes
from lograft.clients.cluster.cluster_view import ClusterView, TopicView
from lograft.clients.cluster.connections import Connections
from lograft.clients.errors import ClientClosed
from lograft.runtime.production.client_runtime import ForkedTooLate, check_not_forked, close_client_runtime
from lograft.runtime.world import Runtime

MOST_CONNECTIONS = 4
"""Connections to each broker from all clients of a loop. The first few clients get one each."""


class SharedCluster:
    """Created by the first client that needs it, closed with the last one. Runs on the loop they share."""

    def __init__(self, bootstrap: Sequence[str]) -> None:
        self.bootstrap = bootstrap
        self.runtime = open_runtime(None)
        self.following = ClusterClient(self.runtime, bootstrap)
        self._connections = [self.following.connections]
        self._members: Counter[int] = Counter()  # by index into _connections
        self._wanted: Counter[str] = Counter()
        self._questions: dict[str, _Question] = {}
        self._follow_all: set[ClusterMember] = set()
        self._task: asyncio.Task[None] | None = None

    # -- members

    def admit(self) -> int:
        """Add a member. Return the index of the connections it uses."""
        number = min(range(len(self._connections)), key=self._members.__getitem__)
        if self._members[number] and len(self._connections) < MOST_CONNECTIONS:
            number = len(self._connections)
            self._connections.append(Connections(self.runtime, identity=self.following.identity))
            self._connections[-1].trouble = self._connections[0].trouble
        self._members[number] += 1
        return number

    def connections(self, number: int) -> Connections:
        return self._connections[number]

    async def dismiss(self, number: int) -> None:
        """Remove a member. Close everything with the last one."""
        self._members[number] -= 1
        if self._members.total():
            return
        _forget(self)
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        for connections in self._connections:
            await connections.close()
        await close_client_runtime(self.runtime)

    @property
    def is_usable(self) -> bool:
        """True if another client may join. False while brokers that were reachable no longer are: another cluster may
        have taken their addresses, which is not known yet."""
        has_failed = self._task is not None and self._task.done()
        was_reached = any(connections.has_connected for connections in self._connections)
        return not (self.following.identity.is_replaced or has_failed or (was_reached and not self.is_reached))

    # -- learning

    async def learn(self, name: str) -> None:
        """Learn the topic. Concurrent callers share one request. Raise `UnknownTopic` if it does not exist."""
        question = self._questions.get(name)
        if question is None:
            question = self._questions[name] = _Question(self.following.topic(name))
            question.task.add_done_callback(lambda _: self._questions.pop(name, None))
        question.waiting += 1
        try:
            await asyncio.wait([question.task])
        finally:
            question.waiting -= 1
            if not question.waiting and not question.task.done():
                question.task.cancel()
                self._questions.pop(name, None)
        question.task.result()

    @property
    def is_reached(self) -> bool:
        """True if a connection to any of the cluster's brokers is open."""
        return any(connections.has_open for connections in self._connections)

    # -- following

    async def follow(self) -> None:
        """Keep the view up to date until cancelled. The task that does so runs as long as there are members."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self.following.run(), name="lograft-cluster")
        await asyncio.wait([self._task])
        self._task.result()

    def want(self, name: str) -> None:
        self._wanted[name] += 1

    def unwant(self, names: Iterable[str]) -> None:
        self._wanted.subtract(list(names))
        unwanted = [name for name, count in self._wanted.items() if not count]
        for name in unwanted:
            del self._wanted[name]
        if unwanted:
            self.following.forget(unwanted)

    def follow_all(self, member: "ClusterMember") -> None:
        self._follow_all.add(member)

    def follow_some(self, member: "ClusterMember") -> None:
        if member in self._follow_all:
            self._follow_all.remove(member)
            if not self._follow_all:
                self.following.follow_some()


class _Question:
    """A request to the cluster, and how many callers wait for it."""

    def __init__(self, answer: Coroutine[Any, Any, object]) -> None:
        self.task = asyncio.get_running_loop().create_task(answer, name="learn-topic")
        self.waiting = 0


class ClusterMember(ClusterClient):
    """One client's part of the shared cluster. `is_following`: it uses the shared view; otherwise it has its own view
    and shares the connections only."""

    def __init__(self, shared: SharedCluster, times: ClusterTimes, *, is_following: bool) -> None:
        super().__init__(shared.runtime, shared.bootstrap, times)
        self.identity = shared.following.identity
        self._shared = shared
        self._number = shared.admit()
        self.connections = shared.connections(self._number)
        self._is_following = is_following
        self._is_closed = False
        self.view = shared.following.view if is_following else ClusterView(self.identity)

    def listen(self, listener: Callable[[], None]) -> None:
        super().listen(listener)
        if self._is_following:
            self._shared.following.listen(listener)

    def known_topic(self, name: str) -> TopicView | None:
        return self.view.topic(name) if name in self._wanted or not self._is_following else None

    async def topic(self, name: str) -> TopicView:
        # A client that looks for the cluster for a limited time only sends its own request.
        if self._is_following and self.view.topic(name) is None and self._times.first_contact_ms is None:
            await self._shared.learn(name)
        return await super().topic(name)

    def _is_reached(self) -> bool:
        return self._shared.is_reached

    def _want(self, name: str) -> None:
        if name not in self._wanted and self._is_following:
            self._shared.want(name)
            self._shared.following._want(name)
        super()._want(name)

    def _tell(self) -> None:
        if self._is_following:
            self._shared.following._tell()
        else:
            super()._tell()

    async def follow_all(self) -> None:
        self._check_open()
        self._shared.follow_all(self)
        await self._shared.following.follow_all()

    def follow_some(self) -> None:
        self._shared.follow_some(self)

    async def run(self) -> None:
        self._check_open()
        await self._shared.follow()

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClientClosed("the client is closed: make another one")

    async def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        if self._is_following:
            for listener in self._listeners:
                self._shared.following.unlisten(listener)
            self._shared.follow_some(self)
            self._shared.unwant(self._wanted)
        await self._shared.dismiss(self._number)


_shared: dict[tuple[asyncio.AbstractEventLoop, tuple[str, ...]], SharedCluster] = {}


def join_cluster(
    runtime: Runtime | None, bootstrap: Sequence[str], times: ClusterTimes, *, is_following: bool = True
) -> ClusterClient:
    """Return a client's access to the cluster: a separate one if it has its own `runtime`, otherwise a member of the
    one that all clients of this loop share. Raise `ClientClosed` in a process forked too late for one."""
    if runtime is not None:
        return ClusterClient(runtime, bootstrap, times)
    try:
        check_not_forked()
    except ForkedTooLate as error:
        raise ClientClosed(str(error)) from None
    for key in [each for each in _shared if each[0].is_closed()]:
        del _shared[key]
    key = asyncio.get_running_loop(), tuple(bootstrap)
    shared = _shared.get(key)
    if shared is None or not shared.is_usable:
        shared = _shared[key] = SharedCluster(tuple(bootstrap))
    return ClusterMember(shared, times, is_following=is_following)


def _forget(shared: SharedCluster) -> None:
    for key in [key for key, each in _shared.items() if each is shared]:
        del _shared[key]
