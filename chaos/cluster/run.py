"""The course of a simulated run of a complete cluster: faults, recovery, work; then the checks."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Protocol
from uuid import UUID

from lograft.chaos.checkers.verdict import judge
from lograft.chaos.cluster.checks.coverage_counters import Sights
from lograft.chaos.cluster.checks.group_logs import check_group_logs, members_left
from lograft.chaos.cluster.checks.groups import GroupHistory
from lograft.chaos.cluster.checks.history import (
    ClusterHistory,
    FinalPartition,
    PartitionKey,
    ReplicaLog,
    SentRecord,
    Stored,
    named,
    require,
)
from lograft.chaos.cluster.checks.verdict import expect_sound
from lograft.chaos.cluster.clients.base import Client, Wanted, topics_of
from lograft.chaos.cluster.clients.members import read_to_the_end
from lograft.chaos.cluster.clients.readers import ReadRecorder
from lograft.chaos.cluster.clients.senders import SendRecorder
from lograft.chaos.cluster.faults.allowed_losses import Losses
from lograft.chaos.cluster.faults.nemesis import ClusterNemesis
from lograft.chaos.cluster.operator import Operator
from lograft.chaos.cluster.to_live_history import judged
from lograft.chaos.cluster.world.node import SimulatedHost
from lograft.chaos.cluster.world.record_marks import is_deletion, mark_of
from lograft.chaos.cluster.world.selection import Selection
from lograft.chaos.cluster.world.weather import ClusterWeather
from lograft.chaos.harness.failures import NotLive
from lograft.chaos.harness.outcome import Outcome
from lograft.chaos.harness.schedule import Detail, Schedule
from lograft.chaos.history.history import History
from lograft.clients.consumer.aio_consumer import Consumer
from lograft.clients.errors import LograftError
from lograft.clients.producer.aio_producer import Producer
from lograft.clients.types import TopicPartition
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import Partition, TopicId
from lograft.runtime.rng import Rng
from lograft.runtime.world import Runtime
from lograft.storage.batch.codec import decode_records, iterate_batches
from lograft.storage.errors import CorruptLog, InvalidBatch, OffsetOutOfRange
from lograft.storage.inspect.batch_check import check_batches
from lograft.storage.log.partition_log import PartitionLog

_FIRST_START_MS = 20_000
_RECOVERY_MS = 60_000
_LOOK_EVERY_MS = 100
_READ_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class ClusterRun:
    """The figures of a successful run."""

    schedule: Schedule
    virtual_ms: int
    sent: int
    acknowledged: int
    unknown: int
    failed: int
    deletions: int
    read: int
    told: int
    epochs: int
    sights: Counter[str]
    crashes: Counter[str]
    wishes: Counter[str]
    faults: Counter[str]
    judged: Counter[str]  # checked by the checkers of live clusters


class ClusterRunTarget(Protocol):
    weather: ClusterWeather
    selection: Selection
    schedule: Schedule
    history: ClusterHistory
    group: GroupHistory
    nemesis: ClusterNemesis
    hosts: list[SimulatedHost]
    clients: list[Client]
    operators: list[Operator]
    losses: Losses
    sights: Sights
    rng: Rng
    final: dict[PartitionKey, FinalPartition]

    @property
    def now_us(self) -> int: ...

    @property
    def image(self) -> ClusterImage: ...

    @property
    def addresses(self) -> list[str]: ...

    @property
    def missing_voters(self) -> list[int] | None: ...

    def lost_stores(self, number: int) -> tuple[UUID, ...]: ...

    def note(self, event: str, *details: Detail) -> None: ...

    def client_runtime(self, host: str) -> Runtime: ...

    def check_committed(self, key: PartitionKey, leader_epoch: int, end: int, what: object) -> None: ...

    def note_replicas(self) -> None: ...

    def live_history(self) -> History: ...

    def call_later_ms(self, delay_ms: float, action: Callable[[], None]) -> None: ...

    async def pass_ms(self, duration_ms: float) -> None: ...


async def live_through(stage: ClusterRunTarget, trouble: Callable[[], Awaitable[None]] | None = None) -> ClusterRun:
    """Run faults, clients and operators for a while. Then end the faults: the cluster must recover and work.

    `trouble` replaces the random faults.
    """
    stage.nemesis.start_all()
    await _until(stage, lambda: _unready(stage), _FIRST_START_MS)
    _expect_late(stage)
    async with asyncio.TaskGroup() as group:
        founder = stage.operators[0]
        tasks = [group.create_task(founder.run_first(), name="first")]
        await asyncio.wait(tasks)
        clients = [client for client in stage.clients if stage.selection.has_client(client.name)]
        tasks = [group.create_task(client.run(), name=client.name) for client in clients]
        await (trouble() if trouble is not None else _be_troubled(stage))
        stage.note("recovery")
        stage.nemesis.heal()
        for client in clients:
            client.stop()
        await _ended(stage, tasks)
    await _within(stage.operators[0].restore_quorum(), "the quorum is not whole again")
    await _until(stage, lambda: _unready(stage) or _unfinished(stage), _RECOVERY_MS)
    await _within(stage.operators[0].use_all(), "not every broker can be used")
    stage.history.settled_us = stage.now_us
    for host in stage.hosts:
        host.forget_tails()
    await _expect_work(stage)
    await _until(
        stage,
        lambda: members_left(stage.hosts) or _unready(stage) or _unfinished(stage) or _behind(stage),
        _RECOVERY_MS,
    )
    stage.final.update(await _read_all_logs(stage))
    history = stage.live_history()
    expect_sound(judge(history))
    return _summary(stage, history)


def _expect_late(stage: ClusterRunTarget) -> None:
    """Start each late broker at a random time."""

    def install(host: SimulatedHost) -> None:
        host.is_expected = True
        if not host.is_up:
            host.start()

    for host in [host for host in stage.hosts if not host.is_expected]:
        stage.call_later_ms(stage.rng.uniform(0, stage.weather.duration_ms), partial(install, host))


async def _be_troubled(stage: ClusterRunTarget) -> None:
    _trouble(stage, stage.now_us + stage.weather.duration_ms * 1000)
    await stage.pass_ms(stage.weather.duration_ms)


def _trouble(stage: ClusterRunTarget, until_us: int) -> None:
    if stage.now_us < until_us:
        if stage.weather.faults:
            stage.nemesis.act()
        stage.call_later_ms(stage.rng.uniform(0, 2 * stage.weather.fault_every_ms), lambda: _trouble(stage, until_us))


async def _ended(stage: ClusterRunTarget, tasks: "list[asyncio.Task[None]]") -> None:
    """Wait until the clients end, now that there are no faults."""

    def unended() -> str:
        running = [task.get_name() for task in tasks if not task.done()]
        return f"not ended: {', '.join(running)}" if running else ""

    await _until(stage, unended, _RECOVERY_MS)


# -- conditions to wait for


async def _until(stage: ClusterRunTarget, missing: Callable[[], str], at_most_ms: int) -> None:
    for _ in range(at_most_ms // _LOOK_EVERY_MS):
        if not missing():
            return
        await stage.pass_ms(_LOOK_EVERY_MS)
        stage.nemesis.start_all()  # nodes whose requested shutdown has finished meanwhile
    raise NotLive(f"{at_most_ms} ms after the last fault: {missing()}")


def _unready(stage: ClusterRunTarget) -> str:
    for host in [host for host in stage.hosts if host.is_expected]:
        reason = host.node.why_not_ready() if host.node is not None else "down"
        if reason is not None:
            return f"{host.process}: {reason}"
    return ""


def partitions_of(image: ClusterImage) -> list[tuple[PartitionKey, Partition]]:
    return [
        ((topic.topic_id, number), partition)
        for topic in image.topics.values()
        for number, partition in topic.partitions.items()
    ]


def _unfinished(stage: ClusterRunTarget) -> str:
    """Return a partition without a leader, with a replica out of sync, or with an unfinished reassignment."""
    for key, partition in partitions_of(stage.image):
        if partition.leader is None or len(partition.isr) < len(partition.replicas) or partition.is_reassigning:
            return f"{key} is not whole: {partition}"
    return ""


def _behind(stage: ClusterRunTarget) -> str:
    """Return a replica that lacks records, or a broker that lacks metadata."""
    sequence = stage.image.sequence
    for host in stage.hosts:
        if host.node is None or host.node.broker is None:
            continue
        if host.node.broker.membership.image.sequence != sequence:
            return f"{host.process} is behind with the metadata"
    for key, partition in partitions_of(stage.image):
        logs = {broker_id: _log_of(stage, key, broker_id) for broker_id in partition.isr}
        if None in logs.values():
            return f"{key} is not open everywhere"
        if len({log.end_offset for log in logs.values() if log is not None}) > 1:
            return f"{key} ends at {[log.end_offset for log in logs.values() if log is not None]}"
    return ""


def _log_of(stage: ClusterRunTarget, key: PartitionKey, broker_id: int) -> PartitionLog | None:
    host = next(host for host in stage.hosts if host.number == broker_id)
    if host.node is None or host.node.broker is None:
        return None
    replica = host.node.broker.replicas._logs.replicas.get((TopicId(key[0]), key[1]))
    return replica.log if replica is not None else None


# -- normal operation


async def _expect_work(stage: ClusterRunTarget) -> None:
    """Check that a new producer is served in every partition, and that a new consumer receives every record."""
    for key, partition in partitions_of(stage.image):
        stage.note("whole", str(key[0])[:4], key[1], f"leader {partition.leader}@{partition.leader_epoch}")
    if not topics_of(stage.image):
        await stage.operators[0].run_first()
    await _within(_work(stage), "what is new is not delivered, though nothing is wrong")


async def _within(work: Coroutine[None, None, None], otherwise: str) -> None:
    timeout = asyncio.timeout(_RECOVERY_MS / 1000)
    try:
        async with timeout:
            await work
    except TimeoutError:
        if not timeout.expired():
            raise
        raise NotLive(otherwise) from None
    except LograftError as error:
        raise NotLive(f"nothing is wrong, and still: {error}") from error


async def _work(stage: ClusterRunTarget) -> None:
    names = [(topic.name, number) for topic in topics_of(stage.image) for number in topic.partitions]
    sends: list[SentRecord] = []
    recorder = SendRecorder("last.producer", stage)
    async with Producer(stage.addresses, runtime=stage.client_runtime("last")) as producer:
        for name, number in names:
            send = await recorder.send(producer, name, number, Wanted(b"last", is_deletion=False, padding_bytes=10))
            assert send is not None
            sends.append(send)
        await producer.flush()
    for send in sends:
        if send.outcome is not Outcome.OK:
            raise NotLive(f"nothing is wrong, and still {send}")
    async with Consumer(
        stage.addresses, runtime=stage.client_runtime("last"), auto_offset_reset="earliest"
    ) as consumer:
        await consumer.assign([TopicPartition(*name) for name in names])
        reader = ReadRecorder("last.consumer", consumer, stage)
        while not all(_has_got_to(reader, send) for send in sends):
            await reader.poll(1.0)
    if stage.weather.members:
        await read_to_the_end(stage, {send.key: send.offset + 1 for send in sends if send.offset is not None})


def _has_got_to(reader: ReadRecorder, send: SentRecord) -> bool:
    latest = reader.latest.get(send.key)
    assert send.offset is not None
    return latest is not None and latest.offset >= send.offset


# -- final checks


async def _read_all_logs(stage: ClusterRunTarget) -> dict[PartitionKey, FinalPartition]:
    partitions: dict[PartitionKey, FinalPartition] = {}
    rotten = {(rot.key, rot.host.number) for rot in stage.losses.rot()}
    for (topic_id, number), partition in partitions_of(stage.image):
        key = (topic_id, number)
        if stage.image.topics[TopicId(topic_id)].is_internal:
            logs = {broker_id: _log_of(stage, key, broker_id) for broker_id in partition.isr}
            damaged = [broker_id for rotten_key, broker_id in rotten if rotten_key == key]
            await check_group_logs(key, {each: log for each, log in logs.items() if log is not None}, damaged)
            continue
        final = partitions[key] = FinalPartition(partition.leader_epoch, {})
        for broker_id in partition.isr:
            log = _log_of(stage, key, broker_id)
            assert log is not None
            try:
                final.logs[broker_id] = await _read_log(log)
            except (CorruptLog, InvalidBatch) as error:
                is_rotten = (key, broker_id) in rotten
                require(is_rotten, "what a replica has is sound", named(key), "on", broker_id, error)
                stage.note("rot_left", broker_id, str(error))  # no reader has come across it
    return partitions


async def _read_log(log: PartitionLog) -> ReplicaLog:
    """Read a complete log. Start again if retention deletes its beginning meanwhile."""
    while True:
        with contextlib.suppress(OffsetOutOfRange):
            return await _read_from_start(log)


async def _read_from_start(log: PartitionLog) -> ReplicaLog:
    stored: list[Stored] = []
    start_offset = offset = log.start_offset
    while offset < log.end_offset:
        batches = await log.read(offset, _READ_BYTES)
        check_batches(batches.buffers, log.epochs)
        data = b"".join(batches.buffers)
        for position, header in iterate_batches(data):
            records = decode_records(memoryview(data)[position : position + header.total_bytes])
            stored += [
                Stored(record.offset, header.leader_epoch, mark_of(record.key, record.value, record.headers))
                for record in records
                if record.offset >= start_offset
            ]
        offset = batches.next_offset
    return ReplicaLog(start_offset, offset, stored)


def _summary(stage: ClusterRunTarget, judged_history: History) -> ClusterRun:
    history = stage.history
    stage.note("history", history.digest())
    outcomes = Counter(send.outcome for send in history.sends.values())
    wishes: Counter[str] = Counter()
    for operator in stage.operators:
        wishes.update(operator.counts)
    return ClusterRun(
        schedule=stage.schedule,
        virtual_ms=stage.now_us // 1000,
        sent=len(history.sends),
        acknowledged=outcomes[Outcome.OK],
        unknown=outcomes[Outcome.UNKNOWN],
        failed=outcomes[Outcome.FAIL],
        deletions=sum(is_deletion(send.value) for send in history.sends.values() if send.is_acknowledged),
        read=len(history.reads),
        told=len(history.told),
        epochs=len(history.leaders),
        sights=Counter({**stage.sights.counts, **stage.group.counts, "logs trimmed": len(history.starts)}),
        crashes=stage.sights.crashes,
        wishes=wishes,
        faults=stage.nemesis.met,
        judged=judged(judged_history),
    )
