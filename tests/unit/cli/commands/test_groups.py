"""When a group, or a member of it, has read what there was."""

import io
from typing import Any, cast

from support.raft_nodes import virtual

from lograft.cli.commands.wait import find_condition
from lograft.cli.common.nouns import Noun
from lograft.cli.output.progress import ProgressLine
from lograft.cli.records.consume_run import read_as_member
from lograft.cli.records.record_output import RecordWriter
from lograft.clients.admin.aio_admin import Admin
from lograft.clients.admin.model.group_types import GroupDescription, GroupOffset, GroupState, MemberDescription
from lograft.clients.consumer.sync_consumer import Consumer
from lograft.clients.types import TopicPartition
from lograft.storage.batch.codec import Record

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)


class Idle:
    """A member that others leave no partition to. `commits`: how far the group is, from one look to the next."""

    def __init__(self, commits: list[int | None]) -> None:
        self._commits = commits
        self.polls = 0

    def partitions_for(self, topic: str) -> list[TopicPartition]:
        return [FIRST]

    def end_offsets(self, names: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(names, 10)

    def subscribe(self, topics: object) -> None: ...

    def poll(self, timeout: float, limit: int) -> list[Record]:
        self.polls += 1
        return []

    def assignment(self) -> list[TopicPartition]:
        return []

    def committed(self, names: Any) -> dict[TopicPartition, int | None]:
        return dict.fromkeys(names, self._commits.pop(0))


def test_a_member_without_partitions_ends_when_the_others_have_read_all_there_was() -> None:
    idle = Idle([None, 9, 10])
    out = io.TextIOWrapper(io.BytesIO())
    writer = RecordWriter(out, lambda _: b"", lambda _: "")
    progress = ProgressLine(io.StringIO(), is_shown=False)
    read_as_member(cast(Consumer, idle), ["orders"], writer, progress, None, exits=True)
    assert idle.polls == 3


class Group:
    """An admin client's view of a group that has read all of one partition, and has not begun with the other."""

    def __init__(self, end: int) -> None:
        self._end = end

    async def describe_group(self, name: str) -> GroupDescription:
        member = MemberDescription("m", None, "c", None, 1, ("orders",), (FIRST, SECOND), (FIRST, SECOND), ())
        return GroupDescription(name, GroupState.STABLE, 1, 1, "uniform", (member,), 1)

    async def group_offsets(self, name: str) -> dict[TopicPartition, GroupOffset]:
        return {FIRST: GroupOffset(5, 5, "", None, 0)}

    async def list_offsets(self, names: Any, at: str) -> dict[TopicPartition, int | None]:
        return dict.fromkeys(names, 2 if at == "earliest" else self._end)


@virtual
async def test_a_group_has_not_caught_up_with_what_it_has_not_begun_to_read() -> None:
    _, look = find_condition(Noun.GROUP, "CaughtUp")
    assert await look(cast(Admin, Group(end=5)), "billing") == "orders-1 has a lag of 3 records"
    assert await look(cast(Admin, Group(end=2)), "billing") == ""
