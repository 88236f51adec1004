"""Clients that read as members of a consumer group. They join and leave, are slow, die, and commit."""

import re
from collections.abc import Iterable, Mapping
from uuid import UUID

from lograft.chaos.cluster.checks.answers import check_next
from lograft.chaos.cluster.checks.groups import Floor
from lograft.chaos.cluster.checks.history import PartitionKey, Read
from lograft.chaos.cluster.clients.base import Client, ClientEnvironment
from lograft.chaos.cluster.clients.member_recorder import GROUP, MemberNotes
from lograft.chaos.cluster.clients.readers import note_read
from lograft.chaos.cluster.world.record_marks import mark_of
from lograft.clients.consumer.aio_consumer import Consumer
from lograft.clients.consumer.group.rebalance_listener import RebalanceListener
from lograft.clients.consumer.reading.record_run import Position
from lograft.clients.errors import LograftError
from lograft.clients.types import TopicPartition
from lograft.metadata.decisions.topics.internal_topics import CONSUMER_OFFSETS
from lograft.metadata.image.partition import TopicId
from lograft.runtime.rng import Rng

_ALL_TOPICS = re.compile(r"topic\d+")
_POLL_SECONDS = 0.3


class MemberRecorder(RebalanceListener):
    """Checks the records of one member: exclusive partitions, from the group's committed offset, in order."""

    def __init__(self, name: str, consumer: Consumer, stage: ClientEnvironment) -> None:
        self.name = name
        self.consumer = consumer
        self._stage = stage
        self._history = stage.group
        self._latest: dict[PartitionKey, Read] = {}
        self._began_at: dict[PartitionKey, Floor] = {}
        self._notes = MemberNotes(name, stage, consumer)

    @property
    def partitions(self) -> Mapping[PartitionKey, object]:
        reading = self.consumer._reader.partitions
        return {(UUID(bytes=one.topic_id), name.partition): one for name, one in reading.items()}

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        found = {name: key for name in partitions if (key := self._key(name)) is not None}
        self._notes.gained(found)
        for name in partitions:
            key = found.get(name)
            if key is not None:
                self._stage.note("took", self.name, str(key[0])[:4], key[1])
                self._history.took(self, key)
                self._latest.pop(key, None)
                self._began_at.pop(key, None)
                if self._commits_hold:
                    self._began_at[key] = self._history.committed_at_least(key)

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        self._notes.lost(partitions)
        self._history.counts["partitions given up"] += len(partitions)

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        self._notes.lost(partitions)
        self._history.counts["partitions lost"] += len(partitions)

    @property
    def _commits_hold(self) -> bool:
        """Whether no unclean election has revoked any commits."""
        topic = self._stage.image.topic(CONSUMER_OFFSETS)
        history = self._stage.history
        return topic is None or not any(history.last_generation((topic.topic_id, each)) for each in topic.partitions)

    def _key(self, name: TopicPartition) -> PartitionKey | None:
        """Return the key of a partition, or None if the member has lost it since."""
        partition = self.consumer._reader.partitions.get(name)
        return (UUID(bytes=partition.topic_id), name.partition) if partition is not None else None

    def has_all(self, keys: Iterable[PartitionKey]) -> None:
        """Note that the group has reached the ends of these partitions, after the last write."""
        self._notes.drained(keys)

    def is_gone(self) -> None:
        """Note that the member reads nothing from now on, whether it left or died."""
        self._notes.lost_all()

    async def poll(self, seconds: float) -> int:
        asked_us = self._stage.now_us
        records = await self.consumer.poll(seconds)
        positions = self.consumer._reader.positions()
        reads = []
        for record in records:
            name = TopicPartition(record.topic, record.partition)
            key = self._key(name)
            if key is None:
                continue
            epoch = _epoch_of(positions.get(name))
            mark = mark_of(record.key, record.value, record.headers)
            reads.append(Read(key, self.name, record.offset, mark, epoch))
        self._notes.polled(asked_us, reads)
        for read in reads:
            self._check(read)
            self._history.delivered(read)
            self._latest[read.key] = read
        return len(records)

    def is_at(self, ends: Mapping[PartitionKey, int]) -> bool:
        """Return whether its positions have reached these ends. It need not have received the last records: retention
        may have deleted them before it was assigned the partition."""
        positions = {self._key(name): at.offset for name, at in self.consumer._reader.positions().items()}
        return all(positions.get(key, -1) >= end for key, end in ends.items())

    def _check(self, read: Read) -> None:
        stage, before = self._stage, self._latest.get(read.key)
        if before is None:
            floor = self._began_at.get(read.key)
            if floor is not None:
                self._history.began(read.key, read.offset, floor)
        else:
            check_next(stage.history, before, read)
        note_read(stage, read)

    # -- commits

    async def commit(self) -> None:
        """Commit all records received."""
        latest = {name: self._latest.get(key) for name in self.consumer.assignment() if (key := self._key(name))}
        offsets = {name: read.offset + 1 for name, read in latest.items() if read is not None}
        reads = {read.key: read for read in latest.values() if read is not None}
        async with self._notes.committing({key: read.offset + 1 for key, read in reads.items()}):
            await self.consumer.commit(offsets)
        for key, read in reads.items():
            generation = self._stage.history.generation(key, read.leader_epoch)
            self._history.committed(key, read.offset + 1, generation)

    async def ask_for_commits(self) -> None:
        """Fetch the group's committed offsets of its partitions."""
        keys = {name: key for name in self.consumer.assignment() if (key := self._key(name))}
        at_least = {key: self._history.committed_at_least(key) for key in keys.values()}
        asked_us = self._stage.now_us
        told = await self.consumer.committed(list(keys))
        if self._commits_hold:
            # The offsets of a topic deleted meanwhile are gone, and another topic may have its name.
            topics = self._stage.image.topics
            found = {keys[name]: offset or 0 for name, offset in told.items() if TopicId(keys[name][0]) in topics}
            self._notes.told_commits(asked_us, found)
            for key, offset in found.items():
                self._history.told(key, offset, at_least[key])


def _epoch_of(position: Position | None) -> int:
    return position.leader_epoch if position is not None and position.leader_epoch is not None else 0


class MemberClient(Client):
    """Runs one member after another. Some have a static instance id, and some commit automatically."""

    def __init__(self, name: str, stage: ClientEnvironment, rng: Rng) -> None:
        super().__init__(name, stage, rng)
        self._instance_id = name if rng.random() < 0.3 else None

    async def _live(self, name: str) -> None:
        stage, rng = self.stage, self.rng
        end_us = stage.now_us + self._life_seconds() * 1_000_000
        consumer = Consumer(
            stage.addresses,
            runtime=stage.client_runtime(self.name),
            group=GROUP,
            auto_offset_reset="earliest",
            instance_id=self._instance_id,
            session_timeout_ms=rng.choice([1_500, 3_000, 6_000]),
            max_poll_interval_ms=rng.choice([3_000, 300_000]),
            auto_commit=rng.random() < 0.5,
            auto_commit_interval_ms=rng.choice([300, 2_000]),
            assignor=rng.choice(["uniform", "uniform", "range", "roundrobin"]),
            request_timeout_ms=2_000,
            max_poll_records=rng.choice([1, 7, 500]),
            fetch_partition_bytes=rng.choice([300, 50_000]),
        )
        await consumer.start()
        member = MemberRecorder(name, consumer, stage)
        stage.group.members.append(member)
        try:
            await self._be_member(member, end_us)
            if rng.random() < 0.5:
                await consumer.close()
        except LograftError as error:
            stage.note("member_failed", name, str(error))
        finally:
            stage.group.members.remove(member)
            member.is_gone()
            await consumer._close()  # as if killed, unless it was closed
        await self._pause(0, 1_000)

    async def _be_member(self, member: MemberRecorder, end_us: float) -> None:
        await member.consumer.subscribe(_ALL_TOPICS, member)
        while not self.is_over and self.stage.now_us < end_us:
            try:
                await self._look(member)
            except LograftError as error:
                self.stage.note("read_failed", member.name, str(error))
                await self._pause(10, 200)

    async def _look(self, member: MemberRecorder) -> None:
        await member.poll(_POLL_SECONDS)
        what = self.rng.random()
        if what < 0.3:
            await member.commit()
        elif what < 0.4:
            await member.ask_for_commits()
        elif what < 0.42:
            await self._pause(0, 8_000)  # busy with its records, perhaps for too long


async def read_to_the_end(stage: ClientEnvironment, ends: Mapping[PartitionKey, int]) -> None:
    """Let a final member receive all records not delivered yet, up to the ends of the partitions."""
    consumer = Consumer(
        stage.addresses,
        runtime=stage.client_runtime("last.member"),
        group=GROUP,
        auto_offset_reset="earliest",
        auto_commit=False,
    )
    await consumer.start()
    member = MemberRecorder("last.member", consumer, stage)
    stage.group.members.append(member)
    try:
        await consumer.subscribe(_ALL_TOPICS, member)
        while not member.is_at(ends):
            await member.poll(1.0)
        await member.commit()
        await member.ask_for_commits()
        member.has_all(ends)
        await consumer.close()
    finally:
        stage.group.members.remove(member)
        member.is_gone()
        await consumer._close()
