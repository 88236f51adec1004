"""Groups, rebuilt from a coordinator's log. Pure.

The log is compacted, and a replica may hold old records of its own, followed by what a leader's compaction kept of
later ones. So the records are not a history: the record by which a member gave up a partition may be gone, while the
older one by which it held it is still there. Only the last record of each key counts, once the whole log is read.
"""

from dataclasses import replace

from lograft.broker.groups.state import GroupChange, GroupTable, Held, MemberPut
from lograft.metadata.image.partition import PartitionKey


class GroupReplay:
    """Call `take` with each record in order, then `table`. Set `is_damaged` if records are missing."""

    def __init__(self) -> None:
        self._latest: dict[bytes, GroupChange] = {}  # by record key, in log order
        self.is_damaged = False

    def take(self, key: bytes, change: GroupChange) -> None:
        self._latest.pop(key, None)
        self._latest[key] = change

    def table(self) -> GroupTable:
        changes = list(self._latest.values())
        table = GroupTable()
        for change in _without_two_holders(changes) if self.is_damaged else changes:
            table.apply(change)
        if self.is_damaged:
            _forget_no_epoch(table)
        return table


def _without_two_holders(changes: list[GroupChange]) -> list[GroupChange]:
    """Keep each partition only with the member that got it last: the record by which the other member lost it is
    missing."""
    newest: dict[tuple[str, PartitionKey], tuple[int, str]] = {}
    for change in changes:
        if isinstance(change, MemberPut):
            for held in (change.member.assigned, change.member.giving_up):
                for partition, since in held.items():
                    so_far = newest.get((change.group, partition))
                    if so_far is None or so_far[0] <= since:
                        newest[change.group, partition] = (since, change.member.member_id)

    def kept(change: MemberPut, held: Held) -> Held:
        owner = change.member.member_id
        return {partition: since for partition, since in held.items() if newest[change.group, partition][1] == owner}

    return [
        replace(
            change,
            member=replace(
                change.member,
                assigned=kept(change, change.member.assigned),
                giving_up=kept(change, change.member.giving_up),
            ),
        )
        if isinstance(change, MemberPut)
        else change
        for change in changes
    ]


def _forget_no_epoch(table: GroupTable) -> None:
    """Raise each group's epoch to the highest epoch of its members. The group's own record may be an old one, and an
    epoch that a member has received must not be reused."""
    for group in table.groups.values():
        group.epoch = max([group.epoch, *(member.epoch for member in group.members.values())])
