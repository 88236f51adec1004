"""Records a simulated group member's assignments, polls and commits as entries of a live cluster's history."""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager

from lograft.chaos.cluster.checks.history import PartitionKey, Read
from lograft.chaos.cluster.clients.poll_recorder import (
    PollEnvironment,
    PollNotes,
    failure,
    partition_name,
    positions_of,
)
from lograft.chaos.history.entries import (
    AssignmentChanged,
    Commit,
    CommittedOffset,
    Done,
    Failed,
    FetchOffsets,
    GroupDrained,
    Moment,
    OffsetsFetched,
    Unknown,
)
from lograft.clients.consumer.aio_consumer import Consumer
from lograft.clients.errors import LograftError
from lograft.clients.types import TopicPartition

GROUP = "readers"


class MemberNotes:
    """Records for one member. Call `gained` and `lost` within a poll, before the coordinator learns of the change."""

    def __init__(self, name: str, stage: PollEnvironment, consumer: Consumer) -> None:
        self._name = name
        self._stage = stage
        self._consumer = consumer
        self._polls = PollNotes(name, stage, GROUP)
        self._held: dict[TopicPartition, PartitionKey] = {}
        self._epoch: int | None = None

    @property
    def _now(self) -> Moment:
        return Moment(self._stage.now_us)

    # -- assignments

    def gained(self, partitions: Mapping[TopicPartition, PartitionKey]) -> None:
        self._held |= partitions
        self._polls.begin_anew(partitions.values())
        self._tell(gained=partitions.values())

    def lost(self, partitions: Iterable[TopicPartition]) -> None:
        keys = [key for name in partitions if (key := self._held.pop(name, None)) is not None]
        self._polls.begin_anew(keys)
        self._tell(lost=keys)

    def lost_all(self) -> None:
        self.lost(list(self._held))

    def _tell(self, gained: Iterable[PartitionKey] = (), lost: Iterable[PartitionKey] = ()) -> None:
        gained_names, lost_names = tuple(map(partition_name, gained)), tuple(map(partition_name, lost))
        assert self._consumer._group is not None, "a member is in a group"
        epoch = self._consumer._group.epoch
        if not gained_names and not lost_names and epoch == self._epoch:
            return
        self._epoch = epoch
        self._stage.history.entries.append(
            AssignmentChanged(self._now, GROUP, self._name, gained_names, lost_names, epoch if epoch > 0 else None)
        )

    # -- polls

    def polled(self, asked_us: int, reads: Sequence[Read]) -> None:
        self._tell()  # it may have reached a new epoch with the same partitions
        self._polls.note(asked_us, reads, positions_of(self._consumer))

    # -- committed offsets

    @asynccontextmanager
    async def committing(self, offsets: Mapping[PartitionKey, int]) -> AsyncIterator[None]:
        """Record the outcome of the enclosed commit, even if it raises."""
        invoked = self._now
        completion: Done | Failed | Unknown = Unknown()
        try:
            yield
            completion = Done(self._now)
        except LograftError as error:
            completion = failure(error, self._stage.now_us)
            raise
        finally:
            number = self._stage.history.next_number()
            self._stage.history.entries.append(
                Commit(self._name, number, invoked, GROUP, self._name, _committed(offsets), completion=completion)
            )

    def drained(self, keys: Iterable[PartitionKey]) -> None:
        for topic in dict.fromkeys(partition_name(key).topic for key in keys):
            self._stage.history.entries.append(GroupDrained(self._now, GROUP, topic))

    def told_commits(self, asked_us: int, offsets: Mapping[PartitionKey, int]) -> None:
        number = self._stage.history.next_number()
        completion = OffsetsFetched(self._now, _committed(offsets))
        self._stage.history.entries.append(
            FetchOffsets(self._name, number, Moment(asked_us), GROUP, completion=completion)
        )


def _committed(offsets: Mapping[PartitionKey, int]) -> tuple[CommittedOffset, ...]:
    return tuple(CommittedOffset(partition_name(key), offset) for key, offset in offsets.items())
