"""One partition of `__consumer_offsets` that this broker leads, in one epoch. It coordinates the partition's groups.

It appends each decision, and bases the next decisions on it at once; the answer waits until the decision is committed.
After losing leadership it answers no calls: the next leader loads the committed decisions.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from lograft.broker.groups.membership import (
    Heartbeat,
    MemberAnswer,
    decide_expel,
    decide_heartbeat,
    decide_topics,
    still_said,
)
from lograft.broker.groups.offsets import (
    CommitDecision,
    OffsetCaller,
    ToCommit,
    check_may_fetch,
    committed_of,
    decide_commit,
    decide_delete_group,
    decide_delete_offsets,
    decide_expiry,
)
from lograft.broker.groups.record_codec import NotAGroupRecord, decode_change, encode_change
from lograft.broker.groups.replay import GroupReplay
from lograft.broker.groups.sessions import GroupSessions, MemberKey
from lograft.broker.groups.state import (
    CommittedOffset,
    Group,
    GroupChange,
    GroupError,
    GroupGone,
    GroupPut,
    GroupTable,
    Member,
    SubscribedTopic,
)
from lograft.broker.produce.batch_admission import admit_now
from lograft.broker.replica.interfaces import Acks, ServedReplica
from lograft.broker.replica.timers import ReplicaTimers
from lograft.broker.requests.service_errors import SERVICE_ERRORS
from lograft.broker.requests.slow_requests import waiting
from lograft.metadata.config.effective_settings import cluster_setting
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import PartitionKey, TopicId
from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ReplicaError
from lograft.runtime.clock import Clock
from lograft.runtime.observability.logging import get_logger
from lograft.runtime.tasks.cancellation import until_first
from lograft.runtime.tasks.deadline import ATTEMPT_MS, answer_ms
from lograft.storage.batch.codec import decode_records, encode_batch, iterate_batches
from lograft.storage.batch.header import check_crc
from lograft.storage.errors import InvalidBatch
from lograft.storage.log.log_reader import Batches

log = get_logger(__name__)

_READ_BYTES = 256 * 1024
_COMMIT_TIMEOUT_MS = answer_ms(ATTEMPT_MS)
_RETRY_MS = 500
_FORGOTTEN_AT_ONCE = 1000
_LOST = (
    errors_pb2.NOT_LEADER,
    errors_pb2.LEADER_NOT_AVAILABLE,
    errors_pb2.FENCED_LEADER_EPOCH,
    errors_pb2.UNKNOWN_LEADER_EPOCH,
    errors_pb2.STORAGE_FAILED,
)


@dataclass(frozen=True, slots=True)
class GroupContext:
    """The parts of the broker that a partition uses."""

    clock: Clock
    alarms: ReplicaTimers
    image: Callable[[], ClusterImage]


class OffsetsPartition:
    """Refuses all calls until `load` has returned. Call `close` when this broker stops leading it in this epoch."""

    def __init__(self, context: GroupContext, replica: ServedReplica, number: int, leader_epoch: int) -> None:
        self.number = number
        self.leader_epoch = leader_epoch
        self.is_loaded = False
        self._context = context
        self._clock = context.clock
        self._replica = replica
        self._table = GroupTable()
        self._sessions = GroupSessions(context.clock, context.alarms, self._is_overdue)
        self._news: dict[str, asyncio.Event] = {}  # by group, while a call waits for a change
        self._is_closed = False
        self._log = log.bind(partition=number, epoch=leader_epoch)

    # -- life cycle

    async def load(self) -> None:
        """Read all earlier decisions. Wait for the high watermark: until the epoch has begun, it is unknown whether all
        of them are committed."""
        replay = GroupReplay()
        end, offset = self._replica.log_end, self._replica.log_start
        while offset < end:
            self._check_leads()
            batches = await self._replica.read(offset, _READ_BYTES)
            if batches.buffers:
                self._replay(batches, replay)
                offset = batches.next_offset
                await asyncio.sleep(0)  # give other tasks a turn
            else:
                await self._until_readable(max(offset, self._replica.high_watermark))
        self._check_leads()
        self._table = replay.table()
        self.is_loaded = True
        for group in self._table.groups.values():
            for member in group.members.values():
                self._sessions.heard(group.name, member)
        self._log.info("groups_loaded", groups=len(self._table.groups), end=end)
        self.topics_changed()

    def _replay(self, batches: Batches, replay: GroupReplay) -> None:
        for buffer in batches.buffers:
            for position, header in iterate_batches(buffer):
                try:
                    check_crc(buffer, position, header)
                    records = decode_records(memoryview(buffer)[position : position + header.total_bytes])
                except InvalidBatch as error:  # the leader has no other copy: skip this batch, and keep the rest
                    self._log.error("group_records_lost", offset=header.base_offset, reason=str(error))
                    replay.is_damaged = True
                    continue
                for record in records:
                    try:
                        replay.take(record.key or b"", decode_change(record.key, record.value))
                    except NotAGroupRecord as error:
                        replay.is_damaged = True
                        self._log.error("group_record_passed_over", offset=record.offset, reason=str(error))

    def close(self) -> None:
        """Fail all waiting calls: this broker is no longer the coordinator."""
        self._is_closed = True
        self._sessions.close()
        for news in self._news.values():
            news.set()

    def check_serves(self) -> None:
        """Raise unless the partition is loaded and open."""
        self._check_leads()
        if not self.is_loaded:
            raise GroupError(
                errors_pb2.LOADING, f"the coordinator is still loading its groups ({self.number}): try again"
            )

    def _check_leads(self) -> None:
        try:
            self._replica.check_leads(self.leader_epoch)
        except ReplicaError as error:
            raise _not_coordinator(error) from None
        if self._is_closed:
            raise GroupError(
                errors_pb2.NOT_COORDINATOR, "another broker now coordinates the group: look the coordinator up again"
            )

    # -- calls

    @property
    def groups(self) -> Sequence[Group]:
        """The current groups. They may be uncommitted: `committed` returns once they are."""
        return list(self._table.groups.values())

    def group(self, name: str) -> Group | None:
        return self._table.get(name)

    async def heartbeat(self, heartbeat: Heartbeat, max_wait_ms: int) -> MemberAnswer:
        """Return the member's answer once it differs from the state that the member reported, at the latest after
        `max_wait_ms`."""
        end_ms = self._clock.monotonic_ms() + max_wait_ms
        is_heard = False
        while True:
            await self._replica.room()
            self.check_serves()
            decision = decide_heartbeat(
                self._table.get(heartbeat.group), heartbeat, self._find_topic, self._clock.wall_ms(), self._max_members
            )
            self._carry_out(heartbeat.group, decision.changes)
            self._heed(heartbeat, is_heard=is_heard)
            is_heard = True
            left_ms = end_ms - self._clock.monotonic_ms()
            if left_ms <= 0 or heartbeat.epoch <= 0 or decision.told.is_news_to(heartbeat):
                await self.committed()
                return decision.told
            with waiting(self._clock):
                await until_first(self._news_of(heartbeat.group).wait(), self._clock.sleep_ms(left_ms))
            member = self._member(heartbeat)
            if member is not None:
                heartbeat = still_said(heartbeat, member)

    def _member(self, heartbeat: Heartbeat) -> Member | None:
        group = self._table.get(heartbeat.group)
        return group.members.get(heartbeat.member_id) if group is not None else None

    def _heed(self, heartbeat: Heartbeat, *, is_heard: bool) -> None:
        """Renew a member's session once per call: a call that is still waiting does not prove that the member is
        alive."""
        member = self._member(heartbeat)
        if member is None:
            self._sessions.forget(heartbeat.group, heartbeat.member_id)
        elif not is_heard:
            self._sessions.heard(heartbeat.group, member)

    async def commit(self, speaker: OffsetCaller, items: Sequence[ToCommit]) -> CommitDecision:
        await self._replica.room()
        self.check_serves()
        decision = decide_commit(
            self._table.get(speaker.group), speaker, items, self._topic_size, self._clock.wall_ms()
        )
        self._carry_out(speaker.group, decision.changes)
        await self.committed()
        return decision

    async def fetch(
        self, speaker: OffsetCaller, partitions: Sequence[PartitionKey] | None
    ) -> list[tuple[PartitionKey, CommittedOffset]]:
        """Return committed offsets. Raise if another broker coordinates the group."""
        self.check_serves()
        group, end = self._table.get(speaker.group), self._replica.log_end
        check_may_fetch(group, speaker)
        found = committed_of(group, partitions)
        if not await self._still_coordinates():
            await self._replica.room()
            self.check_serves()
            self._append([_as_it_is(speaker.group, self._table.get(speaker.group))])
            end = self._replica.log_end
        await self.committed(end)
        return found

    async def _still_coordinates(self) -> bool:
        """Return True if no other broker coordinated the group at the time of the call. Return False if only a write
        can prove that, because an in-sync replica runs an earlier version."""
        try:
            return await self._replica.confirm_leads(self.leader_epoch, _COMMIT_TIMEOUT_MS)
        except ReplicaError as error:
            if error.code in _LOST:
                raise _not_coordinator(error) from None
            raise

    async def delete_offsets(self, name: str, partitions: Sequence[PartitionKey]) -> CommitDecision:
        await self._replica.room()
        self.check_serves()
        decision = decide_delete_offsets(self._table.get(name), name, partitions, self._topic_size)
        self._carry_out(name, decision.changes)
        await self.committed()
        return decision

    async def delete_group(self, name: str) -> None:
        await self._replica.room()
        self.check_serves()
        for changes in _in_parts(decide_delete_group(self._table.get(name), name)):
            self._carry_out(name, changes)
        await self.committed()

    async def committed(self, end: int | None = None) -> None:
        """Return when all decisions so far, or below `end`, are committed. Raise if their outcome is unknown."""
        end = self._replica.log_end if end is None else end
        try:
            async with asyncio.timeout(_COMMIT_TIMEOUT_MS / 1000):
                while self._replica.high_watermark < end:
                    self._check_still_leads()
                    await self._until_readable(end - 1)
                self._check_still_leads()
        except TimeoutError:
            raise ReplicaError(
                errors_pb2.TIMED_OUT,
                f"the change was not replicated within {_COMMIT_TIMEOUT_MS} ms, and may or may not take "
                "effect: try again",
            ) from None

    def _check_still_leads(self) -> None:
        """Raise NOT_LEADER, for an unknown outcome, after losing leadership: the next leader may have the decision, or
        not."""
        try:
            self._replica.check_leads(self.leader_epoch)
        except ReplicaError as error:
            raise ReplicaError(
                errors_pb2.NOT_LEADER, error.message, leader_id=error.leader_id, leader_epoch=error.leader_epoch
            ) from None

    async def _until_readable(self, offset: int) -> None:
        woken = asyncio.Event()
        withdraw = self._replica.when_readable(offset, woken.set)
        try:
            await woken.wait()
        finally:
            withdraw()

    # -- timers and topic changes

    def topics_changed(self) -> None:
        """Recompute assignments after topics were created, extended or deleted."""
        if self._is_closed or not self.is_loaded:
            return
        for group in self.groups:
            changes = decide_topics(group, self._find_topic, self._clock.wall_ms())
            if not self._try_to_carry_out(group.name, changes):
                self._context.alarms.ring_at(self._clock.monotonic_ms() + _RETRY_MS, self.topics_changed)
                return

    def expire(self) -> None:
        """Delete expired offsets and groups. If an append fails, the next run retries it."""
        if self._is_closed or not self.is_loaded:
            return
        retention_ms = int(cluster_setting(self._context.image(), "offsets.retention.minutes")) * 60_000
        for group in self.groups:
            changes = decide_expiry(group, self._topic_size, self._clock.wall_ms(), retention_ms)
            for part in _in_parts(changes):
                if not self._try_to_carry_out(group.name, part):
                    break  # delete the group only after all of its offsets

    def _is_overdue(self, key: MemberKey, reason: str) -> bool:
        """Expel a member whose deadline has passed. Return False if the expulsion cannot be written now."""
        group = self._table.get(key.group)
        if group is None or key.member_id not in group.members:
            return True
        changes = decide_expel(group, [key.member_id], self._find_topic, self._clock.wall_ms())
        if not self._try_to_carry_out(key.group, changes):
            return False
        self._log.info("member_put_out", group=key.group, member=key.member_id, reason=reason)
        return True

    def _try_to_carry_out(self, group: str, changes: Sequence[GroupChange]) -> bool:
        """Carry out a decision that no client waits for. Return False if it failed; the caller retries it."""
        try:
            self._carry_out(group, changes)
        except SERVICE_ERRORS as error:
            self._log.info("group_change_put_off", group=group, reason=str(error))
            return False
        return True

    # -- decisions

    def _carry_out(self, name: str, changes: Sequence[GroupChange]) -> None:
        """Append a decision and apply it. If the append fails, raise and change nothing."""
        if not changes:
            return
        self._append(changes)
        for change in changes:
            self._table.apply(change)
        group = self._table.get(name)
        self._sessions.look_at(name, group.members if group is not None else {})
        news = self._news.pop(name, None)
        if news is not None:
            news.set()

    def _append(self, changes: Sequence[GroupChange]) -> None:
        self._check_leads()
        now_ms = self._clock.wall_ms()
        keys, values = zip(*(encode_change(change) for change in changes), strict=True)
        batch = encode_batch(list(values), keys=list(keys), timestamps=[now_ms] * len(values))
        admitted = admit_now(batch, self._replica.log_config, now_ms)
        try:
            self._replica.begin_append(
                admitted, acks=Acks.ALL, leader_epoch=self.leader_epoch, timeout_ms=_COMMIT_TIMEOUT_MS
            )
        except ReplicaError as error:
            if error.code in _LOST:
                raise _not_coordinator(error) from None
            if error.code == errors_pb2.DISK_FULL:
                # A retriable error keeps members in the group until there is space, and they can commit then.
                raise GroupError(errors_pb2.UNAVAILABLE, error.message) from None
            raise

    def _news_of(self, group: str) -> asyncio.Event:
        """Return an event that is set at the group's next change."""
        news = self._news.get(group)
        if news is None or news.is_set():
            news = self._news[group] = asyncio.Event()
        return news

    # -- the cluster

    @property
    def _max_members(self) -> int:
        return int(cluster_setting(self._context.image(), "group.max.size"))

    def _find_topic(self, name: str) -> SubscribedTopic | None:
        topic = self._context.image().topic(name)
        return SubscribedTopic(name, topic.topic_id, len(topic.partitions)) if topic is not None else None

    def _topic_size(self, topic_id: TopicId) -> tuple[str, int] | None:
        topic = self._context.image().topics.get(topic_id)
        return (topic.name, len(topic.partitions)) if topic is not None else None


def _in_parts(forgotten: Sequence[GroupChange]) -> Iterator[Sequence[GroupChange]]:
    """Split the changes, because a group's offsets may exceed one batch."""
    for start in range(0, len(forgotten), _FORGOTTEN_AT_ONCE):
        yield forgotten[start : start + _FORGOTTEN_AT_ONCE]


def _as_it_is(name: str, group: Group | None) -> GroupChange:
    """Return a decision that changes nothing."""
    if group is None:
        return GroupGone(name)
    return GroupPut(name, group.epoch, group.assignment_epoch, group.empty_since_ms, group.topics)


def _not_coordinator(error: ReplicaError) -> GroupError:
    return GroupError(
        errors_pb2.NOT_COORDINATOR,
        f"this broker does not coordinate the group: {error.message}",
        leader_id=error.leader_id,
        leader_epoch=error.leader_epoch,
    )
