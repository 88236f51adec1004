"""The simulator of whole clusters, itself: mistakes it made, which seeds brought to light, and each seed's cause."""

import asyncio
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from support.virtual_log import Machine, append, make_batch, virtual

from lograft.chaos.cluster import run as cluster_run
from lograft.chaos.cluster.checks.groups import GroupHistory
from lograft.chaos.cluster.checks.history import ClusterHistory
from lograft.chaos.cluster.clients.members import MemberRecorder
from lograft.chaos.cluster.clients.readers import ReadRecorder
from lograft.chaos.cluster.faults.allowed_losses import Loss, LostDirectories
from lograft.chaos.cluster.faults.disks import DiskFaults
from lograft.chaos.cluster.run import _read_log
from lograft.chaos.cluster.world.node import SimulatedHost
from lograft.chaos.cluster.world.record_marks import headers_of, mark_for
from lograft.chaos.cluster.world.weather import draw_cluster_weather
from lograft.chaos.harness.failures import InvariantBroken
from lograft.clients.consumer.reading.record_run import Position
from lograft.clients.types import TopicPartition
from lograft.runtime.rng import Rng
from lograft.storage.batch.codec import Record
from lograft.storage.log.log_config import LogConfig

TOPIC_ID = UUID(int=1)


# -- seed 6004


@virtual
async def test_a_log_whose_beginning_goes_while_the_checker_reads_it_is_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster_run, "_READ_BYTES", 1)  # a batch at a time
    monkeypatch.setattr(cluster_run, "mark_of", lambda key, value, headers: value)
    log = await Machine(cold_reads=1.0).open(LogConfig(tail_bytes=0, segment_bytes=2 * len(make_batch(2))))
    for _ in range(10):
        append(log, 2)
    await log.wait_stable(log.end_offset)
    reading = asyncio.ensure_future(_read_log(log))
    await asyncio.sleep(0)
    log.delete_prefix(12)
    read = await reading
    assert (read.start_offset, read.end_offset) == (12, 20)
    assert [stored.offset for stored in read.records] == list(range(12, 20))


# -- seed 20025


@virtual
async def test_a_broker_does_not_forget_what_is_on_its_way_to_the_disk() -> None:
    machine = Machine(slowdown=1000.0)
    log = await machine.open(LogConfig())
    append(log, 2)
    await log.wait_stable(2)
    append(log, 2)
    assert log.stable_end == 2
    replicas = SimpleNamespace(_logs=SimpleNamespace(replicas={0: SimpleNamespace(log=log)}))
    host: Any = SimpleNamespace(node=SimpleNamespace(broker=SimpleNamespace(replicas=replicas)))
    SimulatedHost.forget_tails(host)
    assert (await log.read(2, 1000)).next_offset == 4
    assert log.tail.find(0) is None  # what is written is forgotten


# -- seed 40120


class _Losses:
    def __init__(self, *, may_lose: bool) -> None:
        self._may_lose = may_lose
        self.noted: list[Loss] = []

    def may_lose(self, broker_id: int) -> bool:
        return self._may_lose

    def add(self, loss: Loss) -> None:
        self.noted.append(loss)


class _Host:
    def __init__(self) -> None:
        self.number = 1
        self.process = "n1#1"
        self.is_up = self.is_broker = True
        self.is_full = False
        self.lacks_directories = False
        self.config = SimpleNamespace(data_dirs=["/a", "/b"], is_controller=False)
        self.suffered: list[str] = []

    def directory_id(self, directory: str) -> UUID:
        return UUID(int=ord(directory[-1]))

    def fail_writes(self, directory: str) -> None:
        self.suffered.append(directory)

    take_away = fail_writes


@pytest.mark.parametrize("fault", ["fail_writes", "take_away"])
@pytest.mark.parametrize(
    ("flush_mode", "may_lose", "happens", "is_loss"),
    [("fsync", False, True, False), ("os", True, True, True), ("os", False, False, False)],
)
def test_where_the_page_cache_is_trusted_a_directory_that_was_away_is_lost(
    fault: str, flush_mode: str, may_lose: bool, happens: bool, is_loss: bool
) -> None:
    host, losses = _Host(), _Losses(may_lose=may_lose)
    cluster: Any = SimpleNamespace(
        weather=SimpleNamespace(flush_mode=flush_mode), hosts=[host], losses=losses, note=lambda *_: None
    )
    DiskFaults(cluster, Rng(1), lambda *_: None, lambda *_: None).faults()[fault]()
    assert bool(host.suffered) == happens
    lost = {UUID(int=ord(name[-1])) for name in host.suffered if name.startswith("/")} or {
        UUID(int=ord("a")),
        UUID(int=ord("b")),
    }
    noted = {each for loss in losses.noted if isinstance(loss, LostDirectories) for each in loss.directories}
    assert noted == (lost if is_loss else set())


# -- seed 1389173709


class _Stage:
    """Whose partition starts at `start`, as is seen when one looks."""

    now_us = 0

    def __init__(self, start: int) -> None:
        self.history = ClusterHistory()
        self._start = start

    def note_replicas(self) -> None:
        self.history.starts_at((TOPIC_ID, 0), self._start)

    def check_committed(self, *_: object) -> None: ...


class _Consumer:
    def __init__(self, *offsets: int) -> None:
        self._reader = SimpleNamespace(
            partitions={TopicPartition("t", 0): SimpleNamespace(topic_id=TOPIC_ID.bytes, leader_epoch=1)},
            positions=lambda: {TopicPartition("t", 0): Position(offsets[-1] + 1)},
        )
        self._offsets = offsets

    async def poll(self, seconds: float) -> list[Record]:
        marks = [mark_for("p", offset, b"k", is_deletion=False) for offset in self._offsets]
        return [
            Record("t", 0, offset, 0, b"k", mark, tuple(headers_of(mark)))
            for offset, mark in zip(self._offsets, marks, strict=True)
        ]


@virtual
async def test_a_start_that_moved_since_the_logs_were_looked_at_is_known_to_the_checker() -> None:
    stage: Any = _Stage(start=5)
    consumer: Any = _Consumer(0, 1, 5)
    await ReadRecorder("c", consumer, stage).poll(1)
    consumer = _Consumer(0, 1, 6)
    with pytest.raises(InvariantBroken, match="no gaps"):
        await ReadRecorder("c", consumer, stage).poll(1)


# -- seed 479113029


@pytest.mark.parametrize("is_let_go", [True, False])
@virtual
async def test_a_partition_that_was_let_go_of_is_begun_anew(is_let_go: bool) -> None:
    stage: Any = _Stage(start=0)
    consumer: Any = _Consumer(0, 1)
    recorder = ReadRecorder("c", consumer, stage)
    await recorder.poll(1)
    partitions = consumer._reader.partitions
    if is_let_go:
        consumer._reader.partitions = {}
    recorder.let_go()
    consumer._reader.partitions = partitions
    if is_let_go:
        assert await recorder.poll(1) == 2
    else:
        with pytest.raises(InvariantBroken, match="no gaps: c was to get 2"):
            await recorder.poll(1)


# -- seed 1577656610


def test_no_partition_is_left_to_a_single_broker_where_the_page_cache_is_trusted_and_may_be_lost() -> None:
    drawn = [draw_cluster_weather(Rng(seed)) for seed in range(100)]
    trusting = [weather for weather in drawn if weather.flush_mode == "os"]
    assert trusting
    assert {weather.least_min_isr for weather in trusting} == {2}


# -- seed 7700114


class _Committed:
    """Of which topic 1 is read, and nothing is committed."""

    def __init__(self) -> None:
        name = TopicPartition("t", 0)
        self._reader = SimpleNamespace(partitions={name: SimpleNamespace(topic_id=TOPIC_ID.bytes)})

    def assignment(self) -> list[TopicPartition]:
        return list(self._reader.partitions)

    async def committed(self, names: list[TopicPartition]) -> dict[TopicPartition, int | None]:
        return dict.fromkeys(names)


@pytest.mark.parametrize("is_deleted", [True, False])
@virtual
async def test_a_deleted_topic_takes_its_offsets_along(is_deleted: bool) -> None:
    topics = {} if is_deleted else {TOPIC_ID: SimpleNamespace(topic_id=TOPIC_ID)}
    history = ClusterHistory()
    group = GroupHistory(history)
    group.committed((TOPIC_ID, 0), 22, 0)
    image = SimpleNamespace(topics=topics, topic=lambda _: None)
    stage: Any = SimpleNamespace(image=image, history=history, group=group, now_us=0)
    consumer: Any = _Committed()
    member = MemberRecorder("m", consumer, stage)
    if is_deleted:
        await member.ask_for_commits()
    else:
        with pytest.raises(InvariantBroken, match="does not go back"):
            await member.ask_for_commits()


# -- seed 8800009


class _At:
    """Nothing was read, and the position is this."""

    def __init__(self, offset: int) -> None:
        name = TopicPartition("t", 0)
        self._reader = SimpleNamespace(
            partitions={name: SimpleNamespace(topic_id=TOPIC_ID.bytes)},
            positions=lambda: {name: Position(offset)},
        )


@pytest.mark.parametrize(("offset", "is_at"), [(6, False), (7, True), (8, True)])
def test_who_finds_the_last_records_deleted_is_at_the_end_all_the_same(offset: int, is_at: bool) -> None:
    consumer: Any = _At(offset)
    stage: Any = SimpleNamespace(group=GroupHistory(ClusterHistory()))
    member = MemberRecorder("m", consumer, stage)
    assert member.is_at({(TOPIC_ID, 0): 7}) is is_at
    assert not member.is_at({(TOPIC_ID, 1): 0})
