"""One replica of a partition on this broker: its log and its current role.

Services see it as a `replica.interfaces.ServedReplica`, followers as a `replication.interfaces.LedReplica`.
"""

import asyncio
from collections.abc import Callable
from typing import TypeAlias

from lograft.broker.replica.append_waiters import AppendWaiter
from lograft.broker.replica.checked_reads import read_log, reading
from lograft.broker.replica.context import Assignment, ReplicaContext, ReplicaIdentity
from lograft.broker.replica.exclusive_operations import ExclusiveOperations
from lograft.broker.replica.follower_role import FollowerRole
from lograft.broker.replica.interfaces import Acks, Appended, FoundOffset, OffsetKind, OffsetSpec, ReplicaFacts
from lograft.broker.replica.leader_role import LeaderRole
from lograft.broker.replica.partition_feed import PartitionFeed
from lograft.broker.replica.read_waiters import ReadWaiters
from lograft.broker.replication.follower_core import Subscribe
from lograft.broker.replication.interfaces import FeedListener, ResetTo
from lograft.broker.replication.leader_core import Subscriber
from lograft.broker.replication.log_matching import TruncateTo, reader_parts_at
from lograft.metadata.image.partition import BrokerId, LeaderEpoch, Partition
from lograft.metadata.membership.broker_session import ReplicaEnd
from lograft.proto import errors_pb2
from lograft.proto.errors_pb2 import ErrorCode
from lograft.rpc.coded_error import ReplicaError
from lograft.runtime.disk.disk_writer import DiskFailed
from lograft.runtime.observability.logging import get_logger
from lograft.storage.errors import CorruptLog, LogClosed
from lograft.storage.log.admission import Admitted
from lograft.storage.log.log_config import LogConfig
from lograft.storage.log.log_reader import Batches
from lograft.storage.log.partition_log import PartitionLog
from lograft.storage.log.time_search import FoundTime

log_events = get_logger(__name__)


class Idle:
    """Neither leads nor follows: the partition has no leader, the log is busy, or the image assigns leadership to
    another directory of this broker."""


class Failed:
    """The log has failed and cannot be used."""

    def __init__(self, error: ReplicaError) -> None:
        self.error = error


ReplicaRole: TypeAlias = LeaderRole | FollowerRole | Idle | Failed
_AT_WORK = (LeaderRole, FollowerRole)


class Replica:
    """A replica with an open log. `take` passes it the image's assignment. It changes its role as soon as no exclusive
    operation is using the log.

    An ended role appends nothing: it ends before the next begins, without an await between.
    """

    def __init__(
        self, identity: ReplicaIdentity, log: PartitionLog, high_watermark: int, context: ReplicaContext
    ) -> None:
        self.identity = identity
        self.log = log
        self.role: ReplicaRole = Idle()
        self.operations = ExclusiveOperations(self._settle_role)
        self.compacting = asyncio.Lock()  # held during compaction
        self.is_closed = False  # set by `LogLifecycle`, which opens and closes the log
        self.traffic = context.traffic.of(identity.key)
        self._context = context
        self._watermark = max(min(high_watermark, log.end_offset), log.start_offset)  # as of the end of the last role
        self._assignment: Assignment | None = None
        self._readers = ReadWaiters()
        self._events = log_events.bind(partition=identity.name)
        log.on_stable = self._became_durable
        log.on_failed = self._disk_failed

    # -- state

    @property
    def log_config(self) -> LogConfig:
        return self.log.config

    @property
    def partition(self) -> Partition | None:
        """The partition in the image, or None if it is not assigned to this broker."""
        return self._assignment.partition if self._assignment is not None else None

    @property
    def leader_epoch(self) -> int:
        return self.partition.leader_epoch if self.partition is not None else -1

    @property
    def high_watermark(self) -> int:
        if isinstance(self.role, _AT_WORK):
            return self.role.high_watermark
        return min(self._watermark, self.log.end_offset)

    @property
    def durable_watermark(self) -> int:
        """The high watermark, limited to the durable end of this log. Only this is written to the watermark file,
        because a log that ends below its noted watermark counts as damaged."""
        return min(self.high_watermark, self.log.stable_end)

    @property
    def is_leader(self) -> bool:
        return isinstance(self.role, LeaderRole)

    @property
    def watermark_is_known(self) -> bool:
        return isinstance(self.role, LeaderRole) and self.role.core.watermark_is_known

    @property
    def is_internal(self) -> bool:
        return self.identity.is_internal

    @property
    def log_start(self) -> int:
        return self.log.start_offset

    @property
    def log_end(self) -> int:
        return self.log.end_offset

    @property
    def cleaned_below(self) -> int:
        return self.log.checkpointed.cleaned_below

    @property
    def has_failed(self) -> bool:
        """Return True if this replica has stopped serving and acknowledging."""
        return isinstance(self.role, Failed)

    def facts(self) -> ReplicaFacts:
        return ReplicaFacts(
            *self.identity.key,
            is_leader=self.is_leader,
            leader_epoch=self.leader_epoch,
            log_start=self.log.start_offset,
            log_end=self.log.end_offset,
            high_watermark=self.high_watermark if self.watermark_is_known or not self.is_leader else None,
            size_bytes=self.log.segments.size_bytes,
            directory_id=self.identity.directory_id,
        )

    def end_report(self) -> ReplicaEnd | None:
        """Return the end of the log, which decides unclean elections, or None while it may still change."""
        log = self.log
        if not isinstance(self.role, Idle) or not self.operations.is_idle or log.stable_end < log.end_offset:
            return None
        latest = log.epochs.latest
        return ReplicaEnd(*self.identity.key, LeaderEpoch(latest.epoch if latest is not None else -1), log.end_offset)

    # -- roles

    def take(self, assignment: Assignment | None) -> None:
        """Apply the image's assignment. `assignment`: None if this broker has no replica, or may not act."""
        before, self._assignment = self.partition, assignment
        role, partition = self.role, self.partition
        if before is not None and partition is not None and partition.leader == self.identity.broker_id:
            self._context.counts.isr_changed(before.isr, partition.isr)
        match role:
            case LeaderRole() if partition is not None and self._leads(partition, role.core.leader_epoch):
                assert assignment is not None
                role.take(assignment)
            case FollowerRole() if partition is not None and self._follows(partition, role):
                assert assignment is not None
                role.take(assignment)
            case Failed():
                pass
            case _:
                self._end_role(self._lost_role())
                self._settle_role()

    def _leads(self, partition: Partition, leader_epoch: LeaderEpoch) -> bool:
        return (partition.leader, partition.leader_epoch) == (self.identity.broker_id, leader_epoch)

    def _follows(self, partition: Partition, role: FollowerRole) -> bool:
        return (partition.leader, partition.leader_epoch) == (role.leader_id, role.leader_epoch)

    def _end_role(self, error: ReplicaError, then: Idle | Failed | None = None) -> None:
        role, self.role = self.role, Idle() if then is None else then
        if isinstance(role, _AT_WORK):
            self._watermark = role.high_watermark
            role.end(error)
            self._readers.wake_all()
            if isinstance(role, LeaderRole):
                self._context.role_changed(self.identity.key)

    def _settle_role(self) -> None:
        """Begin the assigned role, if the replica is idle and no exclusive operation is using the log."""
        if not isinstance(self.role, Idle) or self._assignment is None or not self.operations.is_idle:
            return
        partition, identity = self._assignment.partition, self.identity
        if partition.leader is None:
            return
        if partition.leader != identity.broker_id:
            self._follow(self._assignment)
        elif partition.directory_of(identity.broker_id) == identity.directory_id:
            self._lead(self._assignment)

    def _lead(self, assignment: Assignment) -> None:
        try:
            role = LeaderRole(
                self.identity,
                self.log,
                assignment,
                self._watermark,
                self._context,
                self._watermark_moved,
                self.found_corrupt,
            )
        except DiskFailed as error:
            self._disk_failed(error)
            return
        self.role = role
        partition = assignment.partition
        self._context.counts.elections += 1
        self._context.counts.unclean_elections += partition.unclean_epoch == partition.leader_epoch
        self._events.info("leads", epoch=partition.leader_epoch, isr=partition.isr, end=self.log.end_offset)
        role.propose()
        self._context.role_changed(self.identity.key)

    def _follow(self, assignment: Assignment) -> None:
        role = self.role = FollowerRole(
            self.identity,
            self.log,
            self.operations,
            assignment,
            self._watermark,
            self._context,
            self._watermark_moved,
            self._readers.wake_all,
            self.found_corrupt,
        )
        self._events.info("follows", leader=role.leader_id, epoch=role.leader_epoch, end=self.log.end_offset)
        self._context.sink.follow(role)

    def has_no_room(self, follower: BrokerId, leader_epoch: int) -> None:
        """Note that a follower's disk is full: see `replication.interfaces.LedReplica`."""
        if isinstance(self.role, LeaderRole):
            self.role.has_no_room(follower, leader_epoch)

    def propose(self) -> None:
        """Propose another ISR if one is due. Call it also when the state of a broker has changed."""
        if isinstance(self.role, LeaderRole):
            self.role.propose()

    # -- notifications from the log

    def _became_durable(self) -> None:
        if isinstance(self.role, _AT_WORK):
            self.role.became_durable()

    def _watermark_moved(self) -> None:
        self._readers.reached(self.high_watermark)

    def start_moved(self) -> None:
        """Tell followers that old segments of the log were deleted."""
        if isinstance(self.role, LeaderRole):
            self.role.start_moved()

    def found_corrupt(self, error: CorruptLog) -> None:
        """Fail the replica: durable data cannot be read."""
        if not isinstance(self.role, Failed):
            self._fail(error)
            self._context.failures.found_corrupt(self.identity.key, error)

    def _disk_failed(self, error: DiskFailed) -> None:
        if not isinstance(self.role, Failed):
            self._fail(error)
            self._context.failures.disk_failed(self.identity.key, error)

    def _fail(self, cause: Exception) -> None:
        error = self._refusal(errors_pb2.STORAGE_FAILED, f"cannot be used on this broker: {cause}")
        self._end_role(error, then=Failed(error))

    def retire(self) -> None:
        """Fail the replica before its log is closed."""
        if not isinstance(self.role, Failed):
            error = self._lost_role()
            self._end_role(error, then=Failed(error))

    # -- for clients

    def check_leads(self, leader_epoch: int | None) -> None:
        self._leading(leader_epoch)

    def check_serves(self, leader_epoch: int | None, *, from_follower: bool) -> None:
        if from_follower and isinstance(self.role, FollowerRole) and self.role.is_in_sync:
            self._check_epoch(leader_epoch)
        else:
            self._leading(leader_epoch)

    def _leading(self, leader_epoch: int | None) -> LeaderRole:
        """Return the leader's role. Raise `ReplicaError` if this broker does not lead, in that epoch if one is
        given."""
        self._check_epoch(leader_epoch)
        if isinstance(self.role, LeaderRole):
            return self.role
        raise self.role.error if isinstance(self.role, Failed) else self._not_leading()

    def _check_epoch(self, leader_epoch: int | None) -> None:
        known_epoch = self.leader_epoch
        if leader_epoch is not None and leader_epoch < known_epoch:
            raise self._refusal(errors_pb2.FENCED_LEADER_EPOCH, f"is in leader epoch {known_epoch}, not {leader_epoch}")
        if leader_epoch is not None and leader_epoch > known_epoch:
            raise self._refusal(
                errors_pb2.UNKNOWN_LEADER_EPOCH,
                f"is still in leader epoch {known_epoch}, not yet in {leader_epoch}",
            )

    async def confirm_leads(self, leader_epoch: int, timeout_ms: int) -> bool:
        asked = self._leading(leader_epoch).confirm()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                outcome = await asked
        except TimeoutError:
            raise self._refusal(
                errors_pb2.TIMED_OUT, f"has in-sync replicas that did not answer within {timeout_ms} ms: try again"
            ) from None
        if isinstance(outcome, ReplicaError):
            raise outcome
        self._leading(leader_epoch)
        return outcome

    def reader_parts_at(self, last_epoch: int, offset: int) -> int | None:
        return reader_parts_at(self.log, last_epoch, offset)

    def begin_append(
        self,
        batch: Admitted,
        *,
        acks: Acks,
        leader_epoch: int | None,
        timeout_ms: int,
        when_stored: Callable[[], None] | None = None,
    ) -> AppendWaiter:
        return self._leading(leader_epoch).begin_append(batch, acks, timeout_ms, when_stored)

    async def append(self, batch: Admitted, *, acks: Acks, leader_epoch: int | None, timeout_ms: int) -> Appended:
        """Append the batch, and wait for the outcome."""
        pending = self.begin_append(batch, acks=acks, leader_epoch=leader_epoch, timeout_ms=timeout_ms)
        return await pending.outcome()

    async def room(self) -> None:
        await self.log.disk.writer.room()

    async def read(self, offset: int, max_bytes: int) -> Batches:
        self._check_may_read()
        # Verifying replaces a damaged log with another replica's, so skip it if this is the last copy.
        verify = not (isinstance(self.role, LeaderRole) and self.role.core.has_the_last_copy)
        try:
            return await read_log(self.log, offset, max_bytes, self.high_watermark, verify=verify)
        except CorruptLog as error:
            self.found_corrupt(error)
            raise
        except LogClosed:
            self._check_may_read()
            raise

    async def read_stored(self, offset: int, max_bytes: int) -> Batches:
        try:
            return await read_log(self.log, offset, max_bytes, verify=True, from_disk=True)
        except CorruptLog as error:
            if not (isinstance(self.role, LeaderRole) and self.role.core.has_the_last_copy):
                self.found_corrupt(error)
            raise

    def _check_may_read(self) -> None:
        self.check_serves(None, from_follower=True)

    def when_readable(self, offset: int, wake: Callable[[], None]) -> Callable[[], None]:
        withdraw = self._readers.add(offset, wake)
        is_served = isinstance(self.role, LeaderRole) or (isinstance(self.role, FollowerRole) and self.role.is_in_sync)
        if not is_served or offset < self.high_watermark:
            withdraw()
            wake()
        return withdraw

    async def offsets(self, spec: OffsetSpec) -> FoundOffset:
        role = self._leading(None)
        if spec.kind is OffsetKind.EARLIEST:
            return FoundOffset(self.log.start_offset)
        if not role.core.watermark_is_known:
            raise self._refusal(
                errors_pb2.OFFSET_NOT_AVAILABLE, "has a new leader that does not know its high watermark yet"
            )
        if spec.kind is OffsetKind.LATEST:
            return FoundOffset(role.high_watermark)
        found = await self._search(spec, role.high_watermark)
        return FoundOffset(found.offset, found.timestamp) if found is not None else FoundOffset(None)

    async def _search(self, spec: OffsetSpec, bound: int) -> FoundTime | None:
        try:
            async with reading(self.log):
                if spec.kind is OffsetKind.AT_TIME:
                    return await self.log.offset_for_time(spec.timestamp_ms, bound)
                return await self.log.greatest_timestamp(bound)
        except CorruptLog as error:
            self.found_corrupt(error)
            raise

    # -- for followers

    async def subscribe(
        self, subscriber: Subscriber, request: Subscribe, listener: FeedListener
    ) -> PartitionFeed | TruncateTo | ResetTo:
        return await self._leading(request.leader_epoch).subscribe(subscriber, request, listener)

    # -- the rest

    async def reconfigure(self, config: LogConfig) -> None:
        """Apply the configuration as soon as no other exclusive operation is using the log."""
        if config != self.log.config:
            async with self.operations.exclusively():
                if not isinstance(self.role, Failed):
                    await self.log.reconfigure(config)

    def _not_leading(self) -> ReplicaError:
        """Return the error for a call that only a leader can serve, and that had no effect."""
        leader = self.partition.leader if self.partition is not None else None
        if leader is None or leader == self.identity.broker_id:
            return self._refusal(errors_pb2.LEADER_NOT_AVAILABLE, "has no leader at the moment: try again")
        return self._refusal(
            errors_pb2.NOT_LEADER, f"is led by broker {leader}, not {self.identity.broker_id}: retry there"
        )

    def _lost_role(self) -> ReplicaError:
        """Return the error for a lost role. Batches appended in that role may be committed by the next leader."""
        return self._refusal(
            errors_pb2.NOT_LEADER, f"is no longer led by broker {self.identity.broker_id}: look the leader up again"
        )

    def _refusal(self, code: ErrorCode, message: str) -> ReplicaError:
        partition = self.partition
        return ReplicaError(
            code,
            f"{self.identity.name} {message}",
            leader_id=partition.leader if partition is not None else None,
            leader_epoch=partition.leader_epoch if partition is not None else None,
        )
