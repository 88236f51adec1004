"""The next state of a group, while it is being decided. Pure."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeAlias

from lograft.broker.groups.assignors import ASSIGNORS, UNIFORM, Candidate
from lograft.broker.groups.state import Group, GroupChange, GroupPut, Member, MemberGone, MemberPut, SubscribedTopic
from lograft.metadata.image.partition import PartitionKey

FindTopic: TypeAlias = Callable[[str], SubscribedTopic | None]
"""Returns the current topic of that name, or None."""


class GroupDraft:
    """Starts as a copy of the current group, if there is one. Takes effect once its `changes` are applied."""

    def __init__(self, name: str, group: Group | None) -> None:
        self.name = name
        self.group = group if group is not None else Group(name)
        self._is_new = group is None
        self.members = dict(self.group.members)
        self.epoch = self.group.epoch
        self.assignment_epoch = self.group.assignment_epoch
        self.topics = self.group.topics
        self._holders: dict[PartitionKey, str | None] = {}  # where they differ from the group's

    def holder_of(self, partition: PartitionKey) -> str | None:
        return self._holders[partition] if partition in self._holders else self.group.holders.get(partition)

    def put(self, member: Member) -> None:
        self.remove(member.member_id)
        self.members[member.member_id] = member
        for partition in (*member.assigned, *member.giving_up):
            self._holders[partition] = member.member_id

    def remove(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is not None:
            self._holders.update(dict.fromkeys((*member.assigned, *member.giving_up)))

    # -- assignment

    def assign(self, find: FindTopic) -> None:
        """Recompute all targets for the current members and topics."""
        self.epoch += 1
        self.topics = subscribed_topics(self.members.values(), find)
        members = sorted(self.members.values(), key=lambda member: member.member_id)
        candidates = [
            Candidate(member.member_id, member.instance_id or member.member_id, frozenset(member.topics), member.target)
            for member in members
        ]
        targets = ASSIGNORS[chosen_assignor(members)](candidates, self.topics)
        for member in members:
            target = tuple(sorted(targets[member.member_id]))
            if target != member.target:
                self.put(replace(member, target=target))
        self.assignment_epoch = self.epoch

    def reconcile(self, member_id: str, owned: Iterable[PartitionKey] | None) -> None:
        """Move a member's assignment toward its target. `owned`: the partitions it reads; None if unknown.

        The member first gives up the partitions outside its target. Then it gets free partitions, in a new epoch:
        what it reports in an earlier epoch does not cover these partitions.
        """
        member = self.members[member_id]
        target = dict.fromkeys(member.target)
        kept = {partition: since for partition, since in member.assigned.items() if partition in target}
        leaving = {partition: since for partition, since in member.assigned.items() if partition not in target}
        giving_up = {**member.giving_up, **leaving}
        if owned is not None:
            still_read = dict.fromkeys(owned)
            giving_up = {partition: since for partition, since in giving_up.items() if partition in still_read}
        epoch, previous_epoch = member.epoch, member.previous_epoch
        if not giving_up:
            free = [
                partition
                for partition in member.target
                if partition not in kept and self.holder_of(partition) in (None, member_id)
            ]
            if free:
                self.epoch += 1
                epoch, previous_epoch = self.epoch, member.epoch
                kept.update(dict.fromkeys(free, epoch))
        now = replace(member, assigned=kept, giving_up=giving_up, epoch=epoch, previous_epoch=previous_epoch)
        if now != member:
            self.put(now)

    # -- result

    def changes(self, now_ms: int) -> tuple[GroupChange, ...]:
        """Return the changes that turn the group into this draft, if any. Changes that free a partition come before
        those that assign it."""
        before = self.group
        gone = [MemberGone(self.name, member_id) for member_id in before.members if member_id not in self.members]
        put = [
            MemberPut(self.name, member)
            for member_id, member in self.members.items()
            if before.members.get(member_id) is not member
        ]
        empty_since_ms = None if self.members else before.empty_since_ms
        if not self.members and empty_since_ms is None:
            empty_since_ms = now_ms
        group = GroupPut(self.name, self.epoch, self.assignment_epoch, empty_since_ms, self.topics)
        was = GroupPut(self.name, before.epoch, before.assignment_epoch, before.empty_since_ms, before.topics)
        return (*gone, *put, *([group] if self._is_new or group != was else []))


def subscribed_topics(members: Iterable[Member], find: FindTopic) -> tuple[SubscribedTopic, ...]:
    """Return the existing topics that any member wants, by name."""
    names = sorted({name for member in members for name in member.topics})
    return tuple(topic for name in names if (topic := find(name)) is not None)


def chosen_assignor(members: Iterable[Member]) -> str:
    """Return the assignor that most members name; in a tie, the first by name. A member that names none counts for
    the default."""
    votes: dict[str, int] = {}
    for member in members:
        assignor = member.assignor or UNIFORM
        votes[assignor] = votes.get(assignor, 0) + 1
    return min(votes, key=lambda name: (-votes[name], name)) if votes else UNIFORM
