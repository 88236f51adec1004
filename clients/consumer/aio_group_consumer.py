"""The asyncio consumer: group membership and commits."""

import asyncio
import inspect
import re
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple

from lograft.clients.cluster.background_task import ClientTask
from lograft.clients.cluster.cluster_client import ClusterClient
from lograft.clients.consumer.group.offset_commits import GivenOffsets, checked_offsets
from lograft.clients.consumer.group.rebalance_listener import RebalanceListener
from lograft.clients.consumer.group.session import GroupSession
from lograft.clients.consumer.reading.options import ConsumerOptions
from lograft.clients.consumer.reading.partition_reader import PartitionReader
from lograft.clients.errors import CommitFailed, InvalidArgument, LograftError
from lograft.clients.types import OffsetAndMetadata, TopicPartition, check_topic, partition_name

CommitCallback = Callable[[dict[TopicPartition, OffsetAndMetadata] | None, LograftError | None], object]


class GroupMetadata(NamedTuple):
    """A consumer's identity in its group. `member_id` is empty if it is not subscribed."""

    group: str
    member_id: str
    epoch: int
    instance_id: str | None


class GroupConsumer:
    """The group part of the consumer."""

    _options: ConsumerOptions
    _cluster: ClusterClient
    _reader: PartitionReader
    _task: ClientTask
    _group: GroupSession | None

    def _within(self, what: str) -> AbstractAsyncContextManager[object]:
        return self._cluster.within(self._options.request_timeout_ms, what)

    # -- subscribing

    async def subscribe(
        self, topics: Iterable[str] | re.Pattern[str], listener: RebalanceListener | None = None
    ) -> None:
        """Replace the subscription with these topics, whose partitions the group's members share. A pattern must match
        the whole name; the client applies it again as topics are created and deleted, and never to internal ones.
        `listener` is called when partitions are assigned or revoked; on a synchronous consumer, by the polling
        thread.

        Return at once: the client joins the group in the background. If it finds no cluster or no coordinator in time,
        the next poll raises the error, and the client tries again."""
        self._task.check()
        group = self._in_group("subscribe")
        if self._reader.partitions and not group.is_subscribed:
            raise InvalidArgument("partitions are assigned by hand, which excludes subscribing: unsubscribe first")
        wanted = _wanted(topics)
        if not wanted:
            await self.unsubscribe()
            return
        group.subscribe(wanted, listener)

    def subscription(self) -> list[str]:
        """Return the names of the subscribed topics; for a pattern, those it currently matches."""
        self._task.check()
        return [] if self._group is None else sorted(self._group.topics)

    async def unsubscribe(self) -> None:
        """Stop reading. A member has its partitions revoked, as in a rebalance, and leaves its group."""
        self._task.check()
        if self._group is not None and self._group.is_subscribed:
            async with self._within("the group was not left"):
                await self._group.unsubscribe()
        self._reader.remove(*self._reader.partitions)

    def _in_group(self, what: str) -> GroupSession:
        if self._group is None:
            raise InvalidArgument(f"to {what} a consumer needs a group: Consumer(..., group='name')")
        return self._group

    @property
    def member_id(self) -> str:
        """The consumer's id in its group; empty if it is not a member."""
        return "" if self._group is None else self._group.member_id

    def group_metadata(self) -> GroupMetadata:
        """Return the consumer's identity in its group."""
        self._task.check()
        group = self._in_group("be asked for its place")
        assert self._options.group is not None
        return GroupMetadata(self._options.group, group.member_id, group.epoch, self._options.instance_id)

    # -- commits

    async def commit(self, offsets: GivenOffsets | None = None) -> None:
        """Commit these offsets for the group, each that of the next record to read; by default, the current positions,
        which are after all returned records. Raise `CommitFailed` if the partitions no longer belong to this
        member."""
        await self._commit(offsets)

    def commit_async(self, offsets: GivenOffsets | None = None, callback: CommitCallback | None = None) -> None:
        """Commit without waiting. Commits are carried out in the order of the calls. `callback` is called on the
        client's event loop, where it must not block, with the offsets (None: all positions) and the error, or None."""
        asked = None if offsets is None else checked_offsets(offsets)

        def ended(error: BaseException | None) -> None:
            assert error is None or isinstance(error, LograftError)
            if callback is not None:
                callback(asked, error)

        try:
            done = self._commit(offsets)
        except CommitFailed as error:
            ended(error)
        else:
            done.add_done_callback(lambda committed: None if committed.cancelled() else ended(committed.exception()))

    def _commit(self, offsets: GivenOffsets | None) -> asyncio.Future[None]:
        self._task.check()
        return self._in_group("commit").commit(None if offsets is None else checked_offsets(offsets))

    async def committed(self, partitions: Iterable[tuple[str, int]]) -> dict[TopicPartition, int | None]:
        """Return the group's committed offset for each partition, or None if there is none."""
        self._task.check()
        group = self._in_group("ask for what is committed")
        names = [partition_name(each) for each in partitions]
        async with self._within("the committed offsets could not be found out"):
            topic_ids = {name: (await self._cluster.partition(*name)).id for name in names}
            found = await group.committed(topic_ids)
        return {name: found[name].offset if name in found else None for name in names}


async def call_listener(method: Callable[[list[TopicPartition]], Any], partitions: list[TopicPartition]) -> None:
    """Call a listener's method, which may be a coroutine function."""
    result = method(partitions)
    if inspect.isawaitable(result):
        await result


def _wanted(topics: Iterable[str] | re.Pattern[str]) -> list[str] | re.Pattern[str]:
    if isinstance(topics, re.Pattern):
        if not isinstance(topics.pattern, str):
            raise InvalidArgument(f"the pattern is {topics.pattern!r}: give one of text, not of bytes")
        return topics
    if isinstance(topics, str):
        raise InvalidArgument(f"the topics are {topics!r}: give a list of names, or re.compile(...) for a pattern")
    names = list(topics)
    for name in names:
        check_topic(name)
    return names
