"""The asyncio admin client: groups and their offsets."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeVar

from lograft.clients.admin.model.group_types import (
    GroupDescription,
    GroupListing,
    GroupOffset,
    read_group,
    read_listing,
)
from lograft.clients.admin.topic_admin import TopicAdmin
from lograft.clients.cluster.item_results import checked, error_in, only
from lograft.clients.cluster.offset_lookup import AT_TIME, EARLIEST, LATEST, OffsetAnswers, OffsetLookup, OffsetQuestion
from lograft.clients.consumer.group.coordinator_client import GroupCoordinator
from lograft.clients.consumer.group.member import LEAVE_EPOCH, GroupPartition
from lograft.clients.consumer.group.offset_commits import GivenOffsets, checked_offsets, write_commit
from lograft.clients.errors import GroupNotFound, InvalidArgument, LograftError, UnknownTopic
from lograft.clients.types import MAX_INTEGER, TopicPartition, is_text, partition_name
from lograft.proto import groups_pb2 as pb
from lograft.proto import methods
from lograft.runtime.network import ConnectFailed
from lograft.runtime.tasks.retry import TryAgain

T = TypeVar("T")

OFFSETS_TOPIC = "__consumer_offsets"

# How long to wait for leaders to report where their partitions end; where one does not, the lag is unknown.
_ENDS_MS = 3000
_KINDS = {"earliest": EARLIEST, "latest": LATEST}


class GroupAdmin(TopicAdmin):
    # -- groups

    async def list_groups(self) -> list[GroupListing]:
        """Return all groups, ordered by name. Ask every coordinator, and wait for those that are still loading."""
        cluster = self._open()
        found: list[GroupListing] | None = None
        async with cluster.within(self._timeout_ms, "not all coordinators said what groups they have"):
            coordinators = await self._coordinators()
            async for attempt in self._retrying():
                with attempt:
                    found = await self._list_all(coordinators)
                    # If coordinators changed meanwhile, a group may be missing.
                    before, coordinators = coordinators, await self._coordinators()
                    if found is None or coordinators != before:
                        raise TryAgain
        assert found is not None
        return sorted(found, key=lambda group: group.name)

    async def _coordinators(self) -> dict[int, tuple[int | None, int]]:
        """Return the leader and the leader epoch of each partition of the offsets topic. Empty if there never was a
        group."""
        description = await self._describe([OFFSETS_TOPIC], include_internal=True)
        self._open().view.take_description(description, [OFFSETS_TOPIC])
        return {
            partition.number: (partition.leader if partition.HasField("leader") else None, partition.leader_epoch)
            for topic in description.topics
            for partition in topic.partitions
        }

    async def _list_all(self, coordinators: Mapping[int, tuple[int | None, int]]) -> list[GroupListing] | None:
        """Return the groups of these coordinators, or None if any did not answer completely."""
        found: list[GroupListing] = []
        brokers = dict.fromkeys(leader for leader, _ in coordinators.values())
        for broker in brokers:
            if broker is None:
                return None
            try:
                answer = await self._open().call_broker(
                    broker, methods.LIST_GROUPS, pb.ListGroupsRequest(), pb.ListGroupsResponse
                )
            except (ConnectFailed, LograftError) as error:
                if isinstance(error, LograftError) and not error.retriable:
                    raise
                return None
            if answer.loading:
                return None
            found += [read_listing(group, broker) for group in answer.groups]
        return found

    async def describe_group(self, name: str) -> GroupDescription:
        """Return a group with its members. Raise `GroupNotFound` if it does not exist."""
        return only(await self.describe_groups([name]))

    async def describe_groups(self, names: Iterable[str]) -> list[GroupDescription | LograftError]:
        """Return each group or its error, in order."""

        async def describe(coordinator: GroupCoordinator) -> GroupDescription:
            request = pb.DescribeGroupsRequest(groups=[coordinator.group])
            return read_group(
                await coordinator.call_for_group(
                    methods.DESCRIBE_GROUPS, request, pb.DescribeGroupsResponse, lambda answer: answer.groups[0]
                )
            )

        return await self._each_group(names, describe)

    async def delete_group(self, name: str) -> None:
        """Delete a group without members, and all its committed offsets."""
        only(await self.delete_groups([name]))

    async def delete_groups(self, names: Iterable[str]) -> list[str | LograftError]:
        """Delete groups without members. Return the name or the error of each, in order."""

        async def delete(coordinator: GroupCoordinator) -> str:
            request = pb.DeleteGroupsRequest(groups=[coordinator.group])
            await coordinator.call_for_group(
                methods.DELETE_GROUPS, request, pb.DeleteGroupsResponse, lambda answer: answer.results[0]
            )
            return coordinator.group

        return await self._each_group(names, delete)

    async def remove_members(self, group: str, members: Iterable[str] | None = None) -> list[str]:
        """Remove these members, or all, from the group. Return the ids of those removed. A live member rejoins."""
        described = await self.describe_group(group)
        present = [member.member_id for member in described.members]
        chosen = present if members is None else list(members)
        for member_id in chosen:
            if member_id not in present:
                raise InvalidArgument(f"group {group!r} has no member {member_id!r}: describe_group says who is")
        coordinator = self._coordinator(group)
        async with self._open().within(self._timeout_ms, "the members were not removed"):
            for member_id in chosen:
                request = pb.GroupHeartbeatRequest(group=group, member_id=member_id, member_epoch=LEAVE_EPOCH)
                await coordinator.call(methods.GROUP_HEARTBEAT, request, pb.GroupHeartbeatResponse)
        return chosen

    # -- offsets

    async def group_offsets(
        self, group: str, partitions: Iterable[tuple[str, int]] | None = None
    ) -> dict[TopicPartition, GroupOffset]:
        """Return the group's committed offsets for these partitions, or for all. Omit partitions of deleted topics."""
        cluster = self._open()
        wanted = None if partitions is None else [partition_name(each) for each in partitions]
        request = pb.FetchOffsetsRequest(group=group, all=True)
        async with cluster.within(self._timeout_ms, "the offsets could not be found out"):
            try:
                answer = await self._coordinator(group).call(methods.FETCH_OFFSETS, request, pb.FetchOffsetsResponse)
            except GroupNotFound:
                return {}
            found = {TopicPartition(each.topic, each.partition): each for each in answer.offsets if each.topic}
            if wanted is not None:
                found = {name: found[name] for name in wanted if name in found}
            ends = await self._ends(found)
        return {
            name: GroupOffset(
                committed=found[name].offset,
                end=ends.get(name),
                metadata=found[name].metadata,
                leader_epoch=found[name].leader_epoch if found[name].HasField("leader_epoch") else None,
                committed_at=found[name].committed_at,
            )
            for name in sorted(found)
        }

    async def _ends(
        self, found: Mapping[TopicPartition, pb.FetchOffsetsResponse.Committed]
    ) -> dict[TopicPartition, int]:
        """Return the end offsets of the partitions whose leaders answer in time."""
        cluster = self._open()
        names = list(dict.fromkeys(name.topic for name in found))
        if names:
            cluster.view.take_description(await self._describe(names, include_internal=True), names)
        answers = OffsetAnswers()
        questions = {name: OffsetQuestion(each.topic_id, LATEST) for name, each in found.items()}
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_ENDS_MS / 1000):
                await OffsetLookup(cluster).ask(questions, answers)
        return {name: end for name, end in answers.found.items() if end is not None}

    async def alter_group_offsets(self, group: str, offsets: GivenOffsets) -> dict[TopicPartition, LograftError | None]:
        """Set the committed offsets of a group without members; create the group if it does not exist. Return the error
        of each refused offset, by partition; the other offsets are committed."""
        given = checked_offsets(offsets)
        cluster = self._open()
        async with cluster.within(self._timeout_ms, "the offsets were not changed"):
            topic_ids = await self._topic_ids(given)
            request = pb.CommitOffsetsRequest(group=group, may_lower=True)
            for name, offset in given.items():
                request.items.append(write_commit(GroupPartition(topic_ids[name], name.partition), offset))
            answer = await self._coordinator(group).call(methods.COMMIT_OFFSETS, request, pb.CommitOffsetsResponse)
        return {name: error_in(result) for name, result in zip(given, answer.results, strict=True)}

    async def reset_group_offsets(
        self, group: str, partitions: Iterable[tuple[str, int]], to: str | int, *, validate_only: bool = False
    ) -> dict[TopicPartition, int]:
        """Set the committed offsets of a group without members to the `earliest` or `latest` offset, or to the first
        record at or after a time (in milliseconds). Return the offsets by partition. `validate_only`: find them, but
        change nothing."""
        names = [partition_name(each) for each in partitions]
        offsets = await self.list_offsets(names, to)
        # No record is that late yet: the next one to be stored is the first that may be.
        missing = [name for name, offset in offsets.items() if offset is None]
        offsets |= await self.list_offsets(missing, "latest") if missing else {}
        found = {name: offset for name, offset in offsets.items() if offset is not None}
        if not validate_only:
            for error in (await self.alter_group_offsets(group, found)).values():
                if error is not None:
                    raise error
        return found

    async def list_offsets(
        self, partitions: Iterable[tuple[str, int]], at: str | int
    ) -> dict[TopicPartition, int | None]:
        """Return the `earliest` or `latest` offset of each partition, or that of the first record at or after a time
        (in milliseconds), or None if there is no such record."""
        if isinstance(at, str) and at in _KINDS:
            kind, timestamp = _KINDS[at], 0
        elif isinstance(at, int) and abs(at) <= MAX_INTEGER:
            kind, timestamp = AT_TIME, at
        else:
            raise InvalidArgument(f"the time is {at!r}: give {', '.join(_KINDS)}, or milliseconds since 1970")
        names = [partition_name(each) for each in partitions]
        cluster = self._open()
        async with cluster.within(self._timeout_ms, "the offsets could not be found out"):
            topic_ids = await self._topic_ids(names)
            questions = {name: OffsetQuestion(topic_id, kind, timestamp) for name, topic_id in topic_ids.items()}
            return await OffsetLookup(cluster, lambda: self._topic_ids(names)).find(questions)

    async def delete_group_offsets(
        self, group: str, partitions: Iterable[tuple[str, int]]
    ) -> dict[TopicPartition, LograftError | None]:
        """Delete a group's committed offsets for these partitions. Return the errors by partition: offsets of topics
        that members are subscribed to are refused."""
        names = list(dict.fromkeys(partition_name(each) for each in partitions))
        async with self._open().within(self._timeout_ms, "the offsets were not deleted"):
            topic_ids = await self._topic_ids(names)
            request = pb.DeleteOffsetsRequest(
                group=group,
                topics=[pb.GroupTopic(topic_id=topic_ids[name], partitions=[name.partition]) for name in names],
            )
            answer = await self._coordinator(group).call(methods.DELETE_OFFSETS, request, pb.DeleteOffsetsResponse)
        return {name: error_in(result) for name, result in zip(names, answer.results, strict=True)}

    # -- requests

    async def _topic_ids(self, names: Iterable[TopicPartition]) -> dict[TopicPartition, bytes]:
        """Return the topic id of each partition. Raise `UnknownTopic` if a topic does not exist."""
        names = list(names)
        topics = list(dict.fromkeys(name.topic for name in names))
        if not topics:
            return {}
        description = await self._describe(topics, include_internal=True)
        self._open().view.take_description(description, topics)
        ids = {topic.name: checked(topic).id for topic in description.topics}
        for topic in topics:
            if topic not in ids:
                raise UnknownTopic(f"there is no topic {topic!r}: create it first")
        return {name: ids[name.topic] for name in names}

    def _coordinator(self, group: str) -> GroupCoordinator:
        if not isinstance(group, str) or not group or not is_text(group):
            raise InvalidArgument(f"the group is {group!r}: give its name")
        return GroupCoordinator(self._open(), group)

    async def _each_group(
        self, names: Iterable[str], do: Callable[[GroupCoordinator], Awaitable[T]]
    ) -> list[T | LograftError]:
        coordinators = [self._coordinator(name) for name in names]

        async def attempt(coordinator: GroupCoordinator) -> T | LograftError:
            try:
                async with self._open().within(self._timeout_ms, f"group {coordinator.group!r} got no answer"):
                    return await do(coordinator)
            except LograftError as error:
                return error

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(attempt(coordinator)) for coordinator in coordinators]
        return [task.result() for task in tasks]
