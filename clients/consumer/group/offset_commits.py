"""A group's committed offsets: fetches them from its coordinator, and commits in the order of the requests."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from lograft.clients.cluster.cluster_client import ClusterClient
from lograft.clients.consumer.group.coordinator_client import GroupCoordinator
from lograft.clients.consumer.group.member import GroupPartition
from lograft.clients.errors import (
    ClientClosed,
    CommitFailed,
    FencedMemberEpoch,
    GroupNotFound,
    InvalidArgument,
    LograftError,
    PartitionNotOwned,
    UnknownMember,
    error_of,
    is_worth_retrying,
)
from lograft.clients.option_checks import MAX_INT32
from lograft.clients.types import MAX_INTEGER, OffsetAndMetadata, TopicPartition, is_text, partition_name
from lograft.proto import groups_pb2 as pb
from lograft.proto.methods import COMMIT_OFFSETS, FETCH_OFFSETS
from lograft.runtime.tasks.retry import TryAgain, retrying

GivenOffsets: TypeAlias = (
    Mapping[TopicPartition, int | OffsetAndMetadata] | Mapping[tuple[str, int], int | OffsetAndMetadata]
)
"""By partition: the offset of the next record to read."""

_MAX_METADATA = 4096
_REMEDY = (
    "the consumer polled too rarely (max_poll_interval_ms), or was cut off from the cluster (session_timeout_ms); poll "
    "again to continue, with fewer records at a time (max_poll_records) if that takes too long"
)


class Committer(Protocol):
    """The member in whose name offsets are committed. `generation` changes when partitions are lost."""

    @property
    def member_id(self) -> str:
        """The member id; empty to commit as a non-member."""
        ...

    @property
    def epoch(self) -> int: ...

    @property
    def generation(self) -> int: ...

    async def confirm(self) -> None:
        """Wait until the coordinator has confirmed the membership and its epoch, or ended it."""
        ...


@dataclass(slots=True, eq=False)
class _Commit:
    """`topic_ids`: the known topic ids by partition. `is_in_doubt`: an attempt was not answered."""

    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    topic_ids: Mapping[TopicPartition, bytes]
    generation: int
    done: asyncio.Future[None]
    is_in_doubt: bool = False


class GroupOffsets:
    """Commits are carried out while `run` is running."""

    def __init__(
        self, cluster: ClusterClient, coordinator: GroupCoordinator, committer: Committer, timeout_ms: int
    ) -> None:
        self._cluster = cluster
        self._coordinator = coordinator
        self._committer = committer
        self._timeout_ms = timeout_ms
        self._highest: dict[GroupPartition, int] = {}  # committed or possibly committed, as far as known
        self._waiting: list[_Commit] = []
        self._wanted = asyncio.Event()

    # -- fetching

    async def fetch(
        self, partitions: Iterable[GroupPartition], *, as_member: bool
    ) -> dict[GroupPartition, OffsetAndMetadata]:
        """Return the committed offsets of these partitions; the caller bounds the time. With `as_member`, raise if this
        is no longer a member: it must not get offsets committed by a partition's next owner."""
        wanted = list(partitions)
        by_topic: dict[bytes, list[int]] = {}
        for topic_id, number in wanted:
            by_topic.setdefault(topic_id, []).append(number)
        request = pb.FetchOffsetsRequest(
            group=self._coordinator.group,
            member_id=self._committer.member_id if as_member else "",
            member_epoch=self._committer.epoch if as_member else 0,
            topics=[pb.GroupTopic(topic_id=topic_id, partitions=numbers) for topic_id, numbers in by_topic.items()],
        )
        try:
            answer = await self._coordinator.call(FETCH_OFFSETS, request, pb.FetchOffsetsResponse)
        except GroupNotFound:
            answer = pb.FetchOffsetsResponse()  # there is no group yet
        found = {GroupPartition(each.topic_id, each.partition): read_committed(each) for each in answer.offsets}
        self._highest |= {each: found[each].offset if each in found else 0 for each in wanted}
        return found

    # -- committing

    def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], topic_ids: Mapping[TopicPartition, bytes]
    ) -> asyncio.Future[None]:
        """Commit after all earlier requests. The future fails with `CommitFailed` if other members may have the
        partitions by then."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Commit(offsets, topic_ids, self._committer.generation, done))
        self._wanted.set()
        return done

    async def run(self) -> None:
        """Commit until cancelled. Waiting commits are sent in one request."""
        commits: list[_Commit] = []
        try:
            while True:
                await self._wanted.wait()
                self._wanted.clear()
                commits, self._waiting = self._waiting, []
                await self._commit_all(commits)
        finally:
            for commit in (*commits, *self._waiting):
                _finish(commit, ClientClosed("the consumer was closed before the offsets were committed"))

    async def _commit_all(self, commits: list[_Commit]) -> None:
        try:
            async with self._cluster.within(self._timeout_ms, "the offsets were not committed"):
                refused = await self._send_all(commits)
        except LograftError as error:
            for commit in commits:
                _finish(commit, error)
            return
        for commit in commits:
            _finish(commit, _why_refused(commit, refused))

    async def _send_all(self, commits: list[_Commit]) -> dict[TopicPartition, LograftError]:
        """Send the commits. Return the refused partitions and their errors."""
        keys: dict[TopicPartition, GroupPartition] = {}
        for commit in commits:
            for name in commit.offsets:
                topic_id = commit.topic_ids.get(name) or (await self._cluster.partition(*name)).id
                keys[name] = GroupPartition(topic_id, name.partition)

        async def attempt() -> dict[TopicPartition, LograftError]:
            in_time = [commit for commit in commits if self._is_in_time(commit)]
            offsets: dict[TopicPartition, OffsetAndMetadata] = {}
            for commit in in_time:
                offsets |= commit.offsets
            if not offsets:
                return {}
            try:
                return await self._send(offsets, keys)
            except (UnknownMember, FencedMemberEpoch):
                # Ask the coordinator whether the partitions are lost or only the epoch has advanced.
                await self._committer.confirm()
                raise TryAgain from None
            except LograftError as error:
                for commit in in_time:
                    commit.is_in_doubt = commit.is_in_doubt or (error.retriable and error.outcome_unknown)
                raise

        clock = self._cluster.runtime.clock
        return await retrying(clock, self._coordinator.retry_wait(), on=is_worth_retrying)(attempt)

    def _is_in_time(self, commit: _Commit) -> bool:
        """Return True if no partitions were lost since the commit was requested; otherwise fail it."""
        if commit.generation == self._committer.generation:
            return True
        _finish(commit, commit_failed(commit.offsets, outcome_unknown=commit.is_in_doubt))
        return False

    async def _send(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], keys: Mapping[TopicPartition, GroupPartition]
    ) -> dict[TopicPartition, LograftError]:
        """Send one commit request. There is no await before the request is built, so that it carries the membership for
        which the commits were just checked."""
        request = pb.CommitOffsetsRequest(
            group=self._coordinator.group,
            member_id=self._committer.member_id,
            member_epoch=self._committer.epoch,
            items=[write_commit(keys[name], offset) for name, offset in offsets.items()],
            may_lower=any(self._may_be_lower(keys[name], each.offset) for name, each in offsets.items()),
        )
        for name, offset in offsets.items():
            self._highest[keys[name]] = max(self._highest.get(keys[name], 0), offset.offset)
        answer = await self._coordinator.call_once(COMMIT_OFFSETS, request, pb.CommitOffsetsResponse)
        refused: dict[TopicPartition, LograftError] = {}
        for (name, offset), result in zip(offsets.items(), answer.results, strict=True):
            if result.HasField("error"):
                refused[name] = error_of(result.error)
            else:
                self._highest[keys[name]] = offset.offset
        return refused

    def _may_be_lower(self, partition: GroupPartition, offset: int) -> bool:
        """Return True if the member moved back. Only then does the request allow lower offsets: otherwise a late
        arrival of an old commit would undo newer ones."""
        return offset < self._highest.get(partition, MAX_INTEGER)


def _finish(commit: _Commit, error: LograftError | None) -> None:
    if commit.done.done():
        return
    if error is None:
        commit.done.set_result(None)
    else:
        commit.done.set_exception(error)


def _why_refused(commit: _Commit, refused: Mapping[TopicPartition, LograftError]) -> LograftError | None:
    """Return the error for those of the commit's partitions that were refused, if any."""
    reasons = {name: refused[name] for name in commit.offsets if name in refused}
    not_owned = [name for name, error in reasons.items() if isinstance(error, PartitionNotOwned)]
    if not_owned:
        return commit_failed(not_owned, outcome_unknown=commit.is_in_doubt)
    return next(iter(reasons.values()), None)


def commit_failed(names: Iterable[TopicPartition], *, outcome_unknown: bool = False) -> CommitFailed:
    """Return the error for partitions that another member has or may have. `outcome_unknown`: an earlier attempt may
    have committed them."""
    listed = ", ".join(f"{name.topic}-{name.partition}" for name in sorted(names))
    return CommitFailed(
        f"{listed or 'what was read'} may be read by another member of the group by now: {_REMEDY}",
        outcome_unknown=outcome_unknown,
    )


def write_commit(partition: GroupPartition, offset: OffsetAndMetadata) -> pb.CommitOffsetsRequest.Item:
    return pb.CommitOffsetsRequest.Item(
        topic_id=partition.topic_id,
        partition=partition.partition,
        offset=offset.offset,
        leader_epoch=offset.leader_epoch,
        metadata=offset.metadata,
    )


def read_committed(committed: pb.FetchOffsetsResponse.Committed) -> OffsetAndMetadata:
    epoch = committed.leader_epoch if committed.HasField("leader_epoch") else None
    return OffsetAndMetadata(committed.offset, committed.metadata, epoch)


# -- offsets as users give them


def checked_offsets(offsets: GivenOffsets) -> dict[TopicPartition, OffsetAndMetadata]:
    """Convert offsets given by the user. Raise `InvalidArgument` for those that cannot be committed."""
    return {partition_name(partition): _checked(given) for partition, given in offsets.items()}


def _checked(given: int | OffsetAndMetadata) -> OffsetAndMetadata:
    offset = given if isinstance(given, OffsetAndMetadata) else OffsetAndMetadata(given)
    if not isinstance(offset.offset, int) or not 0 <= offset.offset <= MAX_INTEGER:
        raise InvalidArgument(f"there is no offset {offset.offset!r}: give that of the next record to read")
    epoch = offset.leader_epoch
    if epoch is not None and (not isinstance(epoch, int) or not 0 <= epoch <= MAX_INT32):
        raise InvalidArgument(f"there is no leader epoch {epoch!r}: give None if it is not known")
    metadata = offset.metadata
    if not isinstance(metadata, str) or len(metadata) > _MAX_METADATA or not is_text(metadata):
        raise InvalidArgument(f"the metadata is {metadata!r:.100}: give a text of at most {_MAX_METADATA} characters")
    return offset
