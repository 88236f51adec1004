"""A consumer's membership in its group: joins, takes assigned partitions, gives up revoked ones, and commits.

Everything that involves the application happens while it polls. The rest happens in the background: heartbeats,
commits, and looking up the positions at which to begin in new partitions.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeVar

from lograft.clients.cluster.cluster_client import ClusterClient
from lograft.clients.consumer.group.coordinator_client import GroupCoordinator
from lograft.clients.consumer.group.heartbeat import GroupHeartbeat, MemberIdentity
from lograft.clients.consumer.group.member import GroupMember, GroupPartition, MemberSettings
from lograft.clients.consumer.group.offset_commits import GroupOffsets, commit_failed
from lograft.clients.consumer.group.rebalance_listener import RebalanceListener
from lograft.clients.consumer.reading.options import ConsumerOptions
from lograft.clients.consumer.reading.partition_reader import PartitionReader
from lograft.clients.consumer.reading.record_run import Position
from lograft.clients.errors import FencedMemberEpoch, LograftError, UnknownMember, UnknownPartition, UnknownTopic
from lograft.clients.types import OffsetAndMetadata, TopicPartition
from lograft.runtime.observability.logging import get_logger
from lograft.runtime.tasks.cancellation import until_first_ends

log = get_logger(__name__)

T = TypeVar("T")
Called = Callable[[Callable[[list[TopicPartition]], Any], list[TopicPartition]], Awaitable[None]]
"""Calls a method of a listener."""

_RETRY_MS = 500
_LOOK_MS = 1000
_LOOKS_A_POLL_INTERVAL = 3  # at least
_NOT_LEARNT = "nothing could be learnt of the topics, or of who coordinates the group"


class GroupSession:
    """The session of `options.group`. A consumer that does not subscribe has one, too, for its commits."""

    def __init__(
        self, cluster: ClusterClient, reader: PartitionReader, options: ConsumerOptions, call_listener: Called
    ) -> None:
        assert options.group is not None
        self._cluster = cluster
        self._clock = cluster.runtime.clock
        self._reader = reader
        self._options = options
        self._call_listener = call_listener
        self._listener: RebalanceListener | None = None
        self._pattern: re.Pattern[str] | None = None
        self.is_subscribed = False
        # The subscription that the member does not have yet: its topics must be learnt first.
        self._wanted: list[str] | re.Pattern[str] | None = None
        self._to_prepare = asyncio.Event()
        self._why_not_prepared: LograftError | None = None  # for the next poll
        self._member = GroupMember(
            MemberSettings(options.session_timeout_ms, options.max_poll_interval_ms, bool(options.instance_id)),
            str(cluster.runtime.rng.uuid()),
        )
        identity = MemberIdentity(
            instance_id=options.instance_id or "",
            assignor=options.assignor or "",
            session_timeout_ms=options.session_timeout_ms,
            rebalance_timeout_ms=options.max_poll_interval_ms,
            client_id=options.client_id,
            rack=options.rack or "",
        )
        coordinator = self._coordinator = GroupCoordinator(cluster, options.group)
        self._heartbeat = GroupHeartbeat(coordinator, self._member, identity, self._clock, self._look)
        self._offsets = GroupOffsets(cluster, coordinator, self, options.request_timeout_ms)
        self._located: dict[GroupPartition, Position | None] = {}
        self._to_locate = asyncio.Event()
        self._has_step = False  # the next poll has a rebalance step or a failure to handle
        self._is_polling = False
        self._auto_commit_ms = 0.0  # the time of the last one
        self._auto_committed: dict[TopicPartition, OffsetAndMetadata] = {}
        self._given: int | None = None  # sum of positions at the last check; None after a poll
        cluster.listen(self._match_pattern)
        reader.is_interrupted = lambda: self._has_step

    async def run(self) -> None:
        """Do the background work until cancelled."""
        self._auto_commit_ms = self._clock.monotonic_ms()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._prepare_all(), name="group-subscription")
            group.create_task(self._heartbeat.run(), name="group-heartbeat")
            group.create_task(self._offsets.run(), name="group-commits")
            group.create_task(self._locate_all(), name="group-positions")
            group.create_task(self._keep_time(), name="group-time")

    # -- Committer

    @property
    def member_id(self) -> str:
        return self._member.member_id if self.is_subscribed else ""

    @property
    def epoch(self) -> int:
        return self._member.epoch

    @property
    def generation(self) -> int:
        return self._member.generation

    async def confirm(self) -> None:
        await self._heartbeat.confirm()

    # -- subscribing

    @property
    def topics(self) -> tuple[str, ...]:
        """The subscribed topics."""
        match self._wanted:
            case None:
                return self._member.topics
            case re.Pattern() as pattern:
                return tuple(self._matching(pattern))
            case names:
                return tuple(names)

    def subscribe(self, topics: list[str] | re.Pattern[str], listener: RebalanceListener | None) -> None:
        """Replace the subscription. The member joins with it once the cluster, its topics and a coordinator are found.
        If they are not found in time, the next poll raises the error, and they are looked for again."""
        self._wanted, self._listener = topics, listener
        self.is_subscribed = self._reader.ignores_deleted = True
        self._why_not_prepared = None
        self._to_prepare.set()

    async def _prepare_all(self) -> None:
        """Have the member join with the wanted subscription, whenever there is a new one, until cancelled."""
        while True:
            await self._to_prepare.wait()
            self._to_prepare.clear()
            wanted = self._wanted
            if wanted is None:
                continue
            try:
                async with self._cluster.within(self._options.request_timeout_ms, _NOT_LEARNT):
                    await until_first_ends(self._prepare(wanted), self._to_prepare.wait())
            except LograftError as error:
                if self._wanted is wanted:
                    self._why_not_prepared = error
                    self._look()

    async def _prepare(self, wanted: list[str] | re.Pattern[str]) -> None:
        # Polling tolerates a missing coordinator, so find out here if there can be none at all.
        await self._coordinator.find()
        if isinstance(wanted, re.Pattern):
            await self._cluster.follow_all()
            pattern, names = wanted, self._matching(wanted)
        else:
            pattern, names = None, wanted
            for name in names:
                await self._learn(name)
            self._cluster.follow_some()
        if self._wanted is not wanted:
            return
        self._pattern, self._wanted = pattern, None
        self._join_with(names)

    def _join_with(self, names: list[str]) -> None:
        now_ms = self._clock.monotonic_ms()
        self._member.subscribe(names, now_ms)
        if self._is_polling:
            self._member.poll_began(now_ms)  # the poll interval does not run while a poll waits
        self._heartbeat.wake()

    async def _learn(self, topic: str) -> None:
        """Follow the topic. One that does not exist yet is read once it is created."""
        try:
            await self._cluster.topic(topic)
        except UnknownTopic as error:
            log.warning("subscribed_topic_unknown", topic=topic, reason=str(error))

    def _matching(self, pattern: re.Pattern[str]) -> list[str]:
        return [name for name in self._cluster.view.names() if pattern.fullmatch(name)]

    def _match_pattern(self) -> None:
        """Apply the pattern again, because topics may have been created or deleted."""
        if self._pattern is None:
            return
        names = self._matching(self._pattern)
        if tuple(names) != self._member.topics:
            self._join_with(names)

    async def unsubscribe(self) -> None:
        """Give up all partitions, leave the group, and wait until the coordinator knows; the caller bounds the time."""
        try:
            await self._tell_lost()
            names = self._names(self._member.taken)
            if names:
                await self._tell("on_partitions_revoked", names)
            await self._commit_last()
        finally:
            self._reader.remove(*self._reader.partitions)
            self._member.unsubscribe()
            self._located.clear()
            self._pattern = self._listener = None
            self._wanted = self._why_not_prepared = None
            self._to_prepare.set()  # ends a preparation that is under way
            self.is_subscribed = self._reader.ignores_deleted = False
            self._cluster.follow_some()
            self._heartbeat.wake()
        await self._heartbeat.said_farewell()

    async def close(self) -> None:
        """Commit if `auto_commit` is set, and leave."""
        if self.is_subscribed:
            await self.unsubscribe()
        else:
            await self._commit_last()

    async def _commit_last(self) -> None:
        """Commit positions if `auto_commit` is set. In any case, wait for the commits that the application requested
        before."""
        try:
            offsets, topic_ids = self._positions() if self._options.auto_commit else ({}, {})
            await self._offsets.commit(offsets, topic_ids)
        except LograftError as error:
            log.warning("auto_commit_failed", group=self._options.group, reason=str(error))

    # -- polling

    async def polled(self) -> None:
        """Handle a poll that may be served from buffered records: do the pending rebalance step first."""
        await self.poll(0, _nothing)

    async def poll(self, timeout: float | None, wait: Callable[[float | None], Awaitable[list[T]]]) -> list[T]:
        """Do the pending rebalance step, then return the result of `wait` within `timeout` seconds. Repeat if another
        step interrupts `wait`, which then returns nothing."""
        began_ms = self._clock.monotonic_ms()
        self._poll_began(began_ms)
        try:
            while True:
                if self._has_step:
                    await self._settle()
                left = timeout
                if timeout is not None:
                    left = max(timeout - (self._clock.monotonic_ms() - began_ms) / 1000, 0)
                found = await wait(left)
                if found or not self._has_step:
                    return found
        finally:
            self._is_polling = False
            self._member.poll_ended(self._clock.monotonic_ms())
            self._given = None

    def _poll_began(self, now_ms: float) -> None:
        self._is_polling = True
        before = self._member.beat
        self._member.poll_began(now_ms)
        if self._member.beat != before:
            self._heartbeat.wake()
            self._look()
        self._auto_commit(now_ms)

    async def _settle(self) -> None:
        """Report lost, revoked and assigned partitions to the application. An exception of its listener does not undo
        the change. Raise the member's failure, or that of the subscription, if any."""
        why_not_prepared, self._why_not_prepared = self._why_not_prepared, None
        try:
            await self._tell_lost()
            revoked = self._member.to_give_up
            if revoked:
                await self._revoke(revoked)
            taken = [each for each in self._member.to_take if each in self._located]
            if taken:
                await self._take(taken)
        finally:
            self._look()
        if self._member.failure is not None:
            raise self._member.failure
        if why_not_prepared is not None:
            self._to_prepare.set()
            raise why_not_prepared

    async def _tell_lost(self) -> None:
        lost = self._names(self._member.told_lost())
        if lost:
            await self._tell("on_partitions_lost", lost)

    async def _revoke(self, revoked: list[GroupPartition]) -> None:
        generation = self._member.generation
        names = self._names(revoked)
        try:
            await self._tell("on_partitions_revoked", names)
        finally:
            if self._member.generation == generation:
                self._give_up(revoked, names)

    def _give_up(self, revoked: list[GroupPartition], names: list[TopicPartition]) -> None:
        generation = self._member.generation
        offsets, topic_ids = self._positions(names) if self._options.auto_commit else ({}, {})
        self._reader.remove(*names)
        self._member.giving_up(revoked)

        def given_up(committed: asyncio.Future[None]) -> None:
            self._note_failure(committed)
            self._member.gave_up(revoked, generation)
            self._heartbeat.wake()

        # Even an empty commit waits for the commits that the application requested before.
        self._offsets.commit(offsets, topic_ids).add_done_callback(given_up)

    async def _take(self, taken: list[GroupPartition]) -> None:
        self._member.took(taken)
        for partition in taken:
            self._reader.add(self._name(partition), partition.topic_id, self._located.pop(partition))
        await self._tell("on_partitions_assigned", self._names(taken))

    async def _tell(self, method: str, names: list[TopicPartition]) -> None:
        log.info(method, group=self._options.group, partitions=[f"{name.topic}-{name.partition}" for name in names])
        called = getattr(self._listener, method, None)
        if called is not None:
            await self._call_listener(called, names)

    def _name(self, partition: GroupPartition) -> TopicPartition:
        return TopicPartition(self._heartbeat.names[partition.topic_id], partition.partition)

    def _names(self, partitions: Iterable[GroupPartition]) -> list[TopicPartition]:
        return sorted(map(self._name, partitions))

    # -- changes in the background

    def _look(self) -> None:
        """React to a change of the member: stop reading partitions it no longer has, and interrupt a waiting poll if
        there is a step to handle."""
        member = self._member
        if self.is_subscribed:
            gone = [
                name
                for name, partition in self._reader.partitions.items()
                if GroupPartition(partition.topic_id, name.partition) not in member.taken
            ]
            if gone:
                self._reader.remove(*gone)
        self._located = {each: start for each, start in self._located.items() if each in member.assigned}
        if any(each not in self._located for each in member.to_take):
            self._to_locate.set()
        self._has_step = bool(
            member.lost
            or member.to_give_up
            or member.failure is not None
            or self._why_not_prepared is not None
            or any(each in self._located for each in member.to_take)
        )
        if self._has_step:
            # Recall buffered records, so that the application polls and gets to handle the step.
            self._reader.recall()
            self._reader.tell()

    async def _locate_all(self) -> None:
        """Look up the start positions of partitions that may be taken, until cancelled."""
        while True:
            await self._to_locate.wait()
            self._to_locate.clear()
            wanted = [each for each in self._member.to_take if each not in self._located]
            try:
                await self._locate(wanted)
            except (UnknownMember, FencedMemberEpoch):
                await self._heartbeat.confirm()
                self._look()
            except LograftError as error:
                log.warning("group_positions_unknown", group=self._options.group, reason=str(error))
            if any(each not in self._located for each in self._member.to_take):
                await self._clock.sleep_ms(_RETRY_MS)
                self._to_locate.set()

    async def _locate(self, wanted: list[GroupPartition]) -> None:
        generation = self._member.generation
        known = [each for each in wanted if await self._is_known(each)]
        if not known:
            return
        committed = await self._offsets.fetch(known, as_member=True)
        if generation != self._member.generation:
            return  # another member may have read and committed since
        for partition in known:
            found = committed.get(partition)
            self._located[partition] = None if found is None else Position(found.offset, found.leader_epoch)
        self._look()

    async def _is_known(self, partition: GroupPartition) -> bool:
        """Return True if this client knows the partition, which it may learn later than the coordinator."""
        name = self._heartbeat.names.get(partition.topic_id)
        if name is None:
            return False
        try:
            return (await self._cluster.partition(name, partition.partition)).id == partition.topic_id
        except (UnknownTopic, UnknownPartition):
            return False

    async def _keep_time(self) -> None:
        """Watch an application that consumes buffered records without calling the session: progress counts as polling.
        When an auto-commit is due, recall the buffered records: the next poll shows that the application is done with
        the previous records, so that they can be committed."""
        options = self._options
        every_ms = min(
            _LOOK_MS, options.max_poll_interval_ms // _LOOKS_A_POLL_INTERVAL, options.auto_commit_interval_ms
        )
        while True:
            await self._clock.sleep_ms(every_ms)
            now_ms = self._clock.monotonic_ms()
            if self._is_polling:
                self._auto_commit(now_ms)
                continue
            before = self._given
            self._given = sum(position.offset for position in self._reader.positions().values())
            if before is not None and before != self._given:
                self._member.poll_ended(now_ms)
            if self._is_commit_due(now_ms):
                self._reader.recall()

    # -- commits

    def _is_commit_due(self, now_ms: float) -> bool:
        return self._options.auto_commit and now_ms >= self._auto_commit_ms + self._options.auto_commit_interval_ms

    def _auto_commit(self, now_ms: float) -> None:
        """Commit everything returned before this poll, if a commit is due."""
        if not self._is_commit_due(now_ms):
            return
        self._auto_commit_ms = now_ms
        offsets, topic_ids = self._positions()
        if offsets == self._auto_committed:
            return
        self._auto_committed = offsets

        if offsets:
            self._offsets.commit(offsets, topic_ids).add_done_callback(self._note_failure)

    def _note_failure(self, committed: asyncio.Future[None]) -> None:
        if not committed.cancelled() and committed.exception() is not None:
            self._auto_committed = {}
            log.warning("auto_commit_failed", group=self._options.group, reason=str(committed.exception()))

    def _with_epochs(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Add missing leader epochs where known. By the epoch, the next member detects that an unclean election
        truncated the log below the offset; without it, the member would skip records written since."""
        return {name: self._with_epoch(name, given) for name, given in offsets.items()}

    def _with_epoch(self, name: TopicPartition, given: OffsetAndMetadata) -> OffsetAndMetadata:
        partition = self._reader.partitions.get(name)
        if given.leader_epoch is not None or partition is None:
            return given
        return OffsetAndMetadata(given.offset, given.metadata, partition.epoch_before(given.offset))

    def _positions(
        self, names: Iterable[TopicPartition] | None = None
    ) -> tuple[dict[TopicPartition, OffsetAndMetadata], dict[TopicPartition, bytes]]:
        """Return the positions of these partitions, or of all assigned ones, and the ids of their topics."""
        positions = self._reader.positions()
        chosen = {name: positions[name] for name in names or positions if name in positions}
        return (
            {name: OffsetAndMetadata(each.offset, leader_epoch=each.leader_epoch) for name, each in chosen.items()},
            {name: self._reader.partitions[name].topic_id for name in chosen},
        )

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None) -> asyncio.Future[None]:
        """Commit these offsets, or all positions, after all earlier commits. Raise `CommitFailed` if partitions were
        lost or are not this member's."""
        member = self._member
        if self.is_subscribed and member.lost:
            raise commit_failed(self._names(member.lost))
        positions, topic_ids = self._positions(offsets)
        if self.is_subscribed and offsets is not None:
            strange = [name for name in offsets if name not in topic_ids and name not in self._reader.partitions]
            if strange:
                raise commit_failed(strange)
        return self._offsets.commit(positions if offsets is None else self._with_epochs(offsets), topic_ids)

    async def committed(self, topic_ids: Mapping[TopicPartition, bytes]) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the committed offsets of the partitions that have one; the caller bounds the time."""
        keys = {GroupPartition(topic_id, name.partition): name for name, topic_id in topic_ids.items()}
        found = await self._offsets.fetch(keys, as_member=False)
        return {keys[key]: offset for key, offset in found.items() if key in keys}


async def _nothing(_: float | None) -> list[None]:
    return []
