"""Members, configurations and the changes between them. Pure."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID


class Member(NamedTuple):
    """A node together with its present disk. A node that lost its disk returns as another member, which has no vote."""

    node_id: int
    directory_id: UUID

    def __str__(self) -> str:
        return f"{self.node_id}@{self.directory_id.hex[:8]}"


@dataclass(frozen=True, slots=True)
class Configuration:
    """The voters, whose majority decides, and the learners, which receive every entry and decide nothing."""

    voters: tuple[Member, ...] = ()
    learners: tuple[Member, ...] = ()

    def __post_init__(self) -> None:
        assert self.voters == tuple(sorted(self.voters))
        assert self.learners == tuple(sorted(self.learners))
        assert not [member for member in self.voters if member in self.learners]

    @property
    def members(self) -> tuple[Member, ...]:
        return self.voters + self.learners

    @property
    def majority(self) -> int:
        return len(self.voters) // 2 + 1

    def is_majority(self, has: Callable[[Member], bool]) -> bool:
        """Return True if a majority of the voters has it."""
        return sum(map(has, self.voters)) >= self.majority if self.voters else False

    def reached_by_majority(self, reached: Callable[[Member], int]) -> int:
        """Return the greatest value that a majority of the voters has reached."""
        return sorted(map(reached, self.voters), reverse=True)[self.majority - 1] if self.voters else 0


def configuration(voters: Iterable[Member], learners: Iterable[Member] = ()) -> Configuration:
    """Return a configuration of these members, in their order."""
    return Configuration(tuple(sorted(voters)), tuple(sorted(learners)))


# -- changes: each adds or removes at most one voter, so that the majorities before and after always meet


@dataclass(frozen=True, slots=True)
class AddLearner:
    member: Member


@dataclass(frozen=True, slots=True)
class PromoteLearner:
    member: Member


@dataclass(frozen=True, slots=True)
class RemoveMember:
    member: Member


ConfigurationChange = AddLearner | PromoteLearner | RemoveMember


class InvalidChange(ValueError):
    """A change that does not apply to the current configuration."""


def changed(current: Configuration, change: ConfigurationChange) -> Configuration:
    """Return `current` after `change`. Raise InvalidChange if it does not apply."""
    member = change.member
    match change:
        case AddLearner():
            if member in current.members:
                raise InvalidChange(f"{member} is a member already")
            return configuration(current.voters, (*current.learners, member))
        case PromoteLearner():
            if member not in current.learners:
                raise InvalidChange(f"{member} is not a learner; add it first")
            if same_node := [voter for voter in current.voters if voter.node_id == member.node_id]:
                raise InvalidChange(f"node {member.node_id} votes as {same_node[0]}; remove that one first")
            return configuration((*current.voters, member), _without(current.learners, member))
        case RemoveMember():
            if member not in current.members:
                raise InvalidChange(f"{member} is not a member")
            if current.voters == (member,):
                raise InvalidChange(f"{member} is the last voter")
            return configuration(_without(current.voters, member), _without(current.learners, member))


def _without(members: tuple[Member, ...], member: Member) -> tuple[Member, ...]:
    return tuple(other for other in members if other != member)
