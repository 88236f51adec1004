"""One run: real processes go through a story while clients use them. Then all faults end, and replicas are read."""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from lograft.chaos.history.entries import GroupDrained, Note, TopicDeclared
from lograft.chaos.history.history import History, read_history
from lograft.chaos.history.recorder import Recorder
from lograft.chaos.live.clients.base import LiveClient, Place
from lograft.chaos.live.clients.final_replicas import note_final_replicas
from lograft.chaos.live.clients.member_processes import Crowd
from lograft.chaos.live.clients.probe import Asker
from lograft.chaos.live.clients.readers import Member, Reader
from lograft.chaos.live.clients.senders import Sender
from lograft.chaos.live.cluster.cluster import LiveCluster, NotInTime
from lograft.chaos.live.stories.nemesis import LiveNemesis
from lograft.chaos.live.stories.story import Scenario, StoryContext
from lograft.chaos.live.terminal_view import LiveView, TalliedWriter
from lograft.clients.admin.aio_admin import Admin
from lograft.clients.cluster.background_task import ClientTask, open_runtime
from lograft.clients.cluster.cluster_client import ClusterClient
from lograft.clients.errors import LograftError
from lograft.clients.types import TopicPartition
from lograft.runtime.clock import LoopClock
from lograft.runtime.rng import Rng

HISTORY = "history.jsonl"
GROUP = "readers"
_TOPIC = "chaos"
_COMPACTED = "chaos-compacted"
_REPLICAS = 3
_DRAINED_SECONDS = 90

# Small segments, so that many are rolled, compacted and damaged.
_SEGMENTS = {"segment.bytes": "65536"}
_COMPACTION = {
    "cleanup.policy": "compact",
    "segment.bytes": "8192",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "5000",
}


@dataclass(frozen=True, slots=True)
class Effort:
    """The load on the cluster."""

    partitions: int = 6
    senders: int = 3
    readers: int = 2
    members: int = 2
    askers: int = 2
    per_second: int = 100  # of each sender
    session_ms: int = 6000  # of members: partitions of a killed one have no owner for that long
    healed_seconds: int = 120  # to be ready and in sync again after the last fault


def run_scenario(
    scenario: Scenario,
    seed: int,
    duration_seconds: float,
    directory: Path,
    effort: Effort | None = None,
    view: LiveView | None = None,
) -> History:
    """Run a scenario, blocking, and show its progress in `view`. Return its history, which is also in `directory`, with
    all files and all output of the nodes. Raise `NotInTime` if the cluster does not recover after the last fault."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / HISTORY).open("w", buffering=1) as sink:
        run = _Run(scenario, seed, duration_seconds, directory, effort or Effort(), sink, view or LiveView())
        try:
            asyncio.run(_until_asked_to_end(run))
        except BaseExceptionGroup as failures:
            raise _cause(failures) from failures
        except LograftError as failure:
            raise _cause(failure) from failure
    return read_run(directory)


async def _until_asked_to_end(run: "_Run") -> None:
    """Run until done or SIGTERM, which shuts down in an orderly way: no process that was started stays behind."""
    task = asyncio.ensure_future(run.run())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def read_run(directory: Path) -> History:
    """Read the histories of all processes that took part."""

    def lines() -> Iterator[str]:
        for path in [directory / HISTORY, *sorted(directory.glob("history-*.jsonl"))]:
            with path.open() as file:
                yield from file

    return read_history(lines())


def _cause(failure: BaseException) -> BaseException:
    """Return the error that ended a run. If a healthy cluster refuses a request, that counts as `NotInTime`."""
    while isinstance(failure, BaseExceptionGroup):
        failure = failure.exceptions[0]
    return NotInTime(str(failure)) if isinstance(failure, LograftError) else failure


class _Run:
    def __init__(
        self,
        scenario: Scenario,
        seed: int,
        duration_seconds: float,
        directory: Path,
        effort: Effort,
        sink: TextIO,
        view: LiveView,
    ) -> None:
        self._scenario = scenario
        self._duration_seconds = duration_seconds
        self._directory = directory
        self._rng = Rng(seed)
        self._effort = effort
        self._view = view
        self._writer = TalliedWriter(sink, view.tally)
        self._cluster = LiveCluster(directory, scenario.nodes, self._rng.fork())
        self._place = Place(self._cluster.bootstrap, _TOPIC)
        self._compacted = Place(self._cluster.bootstrap, _COMPACTED, is_compacted=True)
        self._own = self._recorder("run")

    def _recorder(self, process: str) -> Recorder:
        return Recorder(process, self._writer, LoopClock())

    async def run(self) -> None:
        self._view.says("starting the nodes")
        async with self._cluster, Admin(self._place.bootstrap) as admin:
            await self._make_topics(admin)
            await self._live(admin)
            self._view.says("reading each replica from its disk")
            async with self._following() as client:
                for place in self._places:
                    await note_final_replicas(admin, client, self._own, place.topic)

    @property
    def _places(self) -> tuple[Place, ...]:
        return self._place, self._compacted

    async def _make_topics(self, admin: Admin) -> None:
        for place in self._places:
            config = _COMPACTION if place.is_compacted else _SEGMENTS
            partitions = 1 if place.is_compacted else self._effort.partitions
            await admin.create_topic(place.topic, partitions=partitions, replicas=_REPLICAS, config=config)
            await admin.wait_for_topic(place.topic)
            self._own.happened(TopicDeclared, topic=place.topic, is_compacted=place.is_compacted)

    async def _live(self, admin: Admin) -> None:
        """Run clients throughout the story, and until the readers have read everything."""
        effort, rng, place = self._effort, self._rng, self._place
        writers: list[LiveClient] = [
            Sender(self._recorder(f"sender{n}"), place, rng.fork(), effort.per_second) for n in range(effort.senders)
        ]
        writers.append(Sender(self._recorder("keeper"), self._compacted, rng.fork(), effort.per_second))
        askers: list[LiveClient] = [
            Asker(self._recorder(f"asker{n}"), place, GROUP, rng.fork(), n) for n in range(effort.askers)
        ]
        readers = [Reader(self._recorder(f"reader{n}"), place) for n in range(effort.readers)]
        followers = [Reader(self._recorder("follower"), self._compacted)]
        members = [
            Member(self._recorder(f"member{n}"), place, GROUP, rng.fork(), effort.session_ms)
            for n in range(effort.members)
        ]
        writing_ends, reading_ends = asyncio.Event(), asyncio.Event()
        crowd = Crowd(self._cluster, self._directory, place, GROUP, rng.fork(), effort.session_ms)
        async with asyncio.TaskGroup() as group:
            writing = [group.create_task(client.run(writing_ends)) for client in (*writers, *askers)]
            reading: list[LiveClient] = [*readers, *followers, *members]
            for client in reading:
                group.create_task(client.run(reading_ends))
            looking = group.create_task(self._view.run())
            try:
                await self._trouble(admin, crowd, rng.fork())
                await self._heal(admin)
            finally:
                writing_ends.set()
            self._view.says("what was sent is being acknowledged")
            await asyncio.wait(writing)
            self._view.says("what was stored is being read")
            await self._drained(await self._ends(admin, place), readers, members)
            await self._drained(await self._ends(admin, self._compacted), followers, None)
            reading_ends.set()
            looking.cancel()
        self._own.happened(GroupDrained, group=GROUP, topic=_TOPIC)

    async def _ends(self, admin: Admin, place: Place) -> dict[TopicPartition, int]:
        count = len((await admin.describe_topic(place.topic)).partitions)
        ends = await admin.list_offsets([(place.topic, number) for number in range(count)], "latest")
        return {name: offset or 0 for name, offset in ends.items()}

    async def _trouble(self, admin: Admin, crowd: Crowd, rng: Rng) -> None:
        self._own.happened(Note, text=f"the story begins: {self._scenario.name}")
        ends_ms = LoopClock().monotonic_ms() + self._duration_seconds * 1000
        nemesis = LiveNemesis(self._cluster, self._recorder("nemesis"), rng.fork())
        self._view.begins(nemesis.under_way, self._duration_seconds)
        try:
            await self._scenario.story(
                StoryContext(nemesis, admin, tuple(place.topic for place in self._places), crowd, rng, ends_ms)
            )
        finally:
            await crowd.end()

    async def _heal(self, admin: Admin) -> None:
        self._own.happened(Note, text="all is healed")
        self._view.says("all is healed; waiting until all nodes are ready and in sync")
        await self._cluster.links.heal()
        for node in self._cluster.nodes.values():
            node.mend_machine()
            node.resume()
            if not node.is_up:
                node.start()
        await self._cluster.wait_ready(self._effort.healed_seconds)
        for place in self._places:
            await admin.wait_for_topic(place.topic, timeout_ms=self._effort.healed_seconds * 1000)

    async def _drained(
        self, ends: Mapping[TopicPartition, int], readers: list[Reader], members: list[Member] | None
    ) -> None:
        """Wait until each reader, and the members together, have reached the ends of the partitions."""

        def is_so() -> bool:
            read_to: list[Mapping[TopicPartition, int]] = [reader.positions for reader in readers]
            if members is not None:
                together: dict[TopicPartition, int] = {}
                for member in members:
                    together |= member.positions
                read_to.append(together)
            return all(positions.get(name, -1) >= end for positions in read_to for name, end in ends.items())

        await self._cluster.until(is_so, _DRAINED_SECONDS, "all that was stored is read by all")

    @asynccontextmanager
    async def _following(self) -> AsyncIterator[ClusterClient]:
        client = ClusterClient(open_runtime(None), self._place.bootstrap.split(","))
        task = ClientTask("final look", client.run)
        task.start()
        try:
            yield client
        finally:
            await task.close()
            await client.close()
