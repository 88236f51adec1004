"""How a node with an empty store comes to take part: the decision. Pure.

An empty store never votes, for it cannot know what the node promised before it lost its disk. Two ways lead out:

- The first start of a cluster. It takes *every* configured controller to say that it is empty, too: only then is there
  surely no cluster yet. The one with the lowest id writes the first voters, each by the directory id it answered with,
  into its own store, and only then hands them out. A node whose own directory id is among them takes them over, and
  votes: under that id it never promised anything.
- Otherwise there is a cluster, and the node waits to be added to it, as a learner first.

A lost offer does no harm: whoever is initialised tells the first voters to whoever asks, and the empty ask until they
know. A repeated one finds the store no longer empty. An old one, written by a node that then lost its disk and wrote
another, differs from that in this dead member alone: a majority of it is one of the same nodes, so the two still meet.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias
from uuid import UUID

from lograft.raft.core.configuration import Configuration, Member, configuration
from lograft.raft.interfaces import StoredState

# -- what others answered


@dataclass(frozen=True, slots=True)
class Unreachable:
    reason: str


@dataclass(frozen=True, slots=True)
class Empty:
    """Nothing was ever saved there; `controllers` are the ids in that node's own settings."""

    cluster_id: str
    directory_id: UUID
    controllers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Joining:
    """Nothing was saved there yet, but it knows that the cluster exists, and waits to be added."""

    cluster_id: str


@dataclass(frozen=True, slots=True)
class Initialised:
    """It takes part. `first_voters` are None if it came later, or folded them into a snapshot long ago."""

    cluster_id: str
    directory_id: UUID
    first_voters: Configuration | None


Answer: TypeAlias = Unreachable | Empty | Joining | Initialised

# -- what to do


@dataclass(frozen=True, slots=True)
class StartFromStore:
    """The store is not empty: go on with what is in it."""


@dataclass(frozen=True, slots=True)
class Wait:
    """For these nodes; `reason` says it to people."""

    node_ids: tuple[int, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class WriteFirstVoters:
    voters: Configuration


@dataclass(frozen=True, slots=True)
class AcceptFirstVoters:
    voters: Configuration


@dataclass(frozen=True, slots=True)
class JoinAsLearner:
    """Say nothing until someone adds this node."""


Decision: TypeAlias = StartFromStore | Wait | WriteFirstVoters | AcceptFirstVoters | JoinAsLearner


def decide(state: StoredState, controllers: Mapping[int, str], answers: Mapping[int, Answer]) -> Decision:
    """`controllers` are the addresses of all configured, by node id, this one's too; `answers` of one round, by id."""
    if not state.is_empty:
        return StartFromStore()
    identity = state.identity
    initialised = {
        node_id: answer
        for node_id, answer in sorted(answers.items())
        if isinstance(answer, Initialised) and answer.cluster_id == identity.cluster_id
    }
    for node_id, answer in initialised.items():
        sender, voters = Member(node_id, answer.directory_id), answer.first_voters
        if voters is not None and refuse_offer(state, identity.cluster_id, sender, voters) is None:
            return AcceptFirstVoters(voters)
    if initialised or identity.node_id not in controllers:
        return JoinAsLearner()
    return _first_start(state, controllers, answers)


def refuse_offer(state: StoredState, cluster_id: str, sender: Member, voters: Configuration) -> str | None:
    """Why this node does not take these first voters over; None if it does."""
    identity = state.identity
    if cluster_id != identity.cluster_id:
        return f"node {identity.node_id} is of cluster {identity.cluster_id}, not {cluster_id}"
    if not state.is_empty:
        return f"the store of {identity.member} is not empty"
    if identity.member not in voters.voters:
        return f"{identity.member} is not among the first voters"
    if sender not in voters.voters:
        return f"{sender}, who offers them, is not among the first voters"
    return None


def _first_start(state: StoredState, controllers: Mapping[int, str], answers: Mapping[int, Answer]) -> Decision:
    identity = state.identity
    listed = tuple(sorted(controllers))
    others = [node_id for node_id in listed if node_id != identity.node_id]
    names = {node_id: f"{node_id}@{address}" for node_id, address in controllers.items()}
    members = [identity.member]
    silent: dict[int, str] = {}
    for node_id in others:
        match answers.get(node_id, Unreachable("not asked yet")):
            case Unreachable(reason=reason):
                silent[node_id] = reason
            case Empty(cluster_id=cluster_id) | Joining(cluster_id=cluster_id) | Initialised(cluster_id=cluster_id) if (
                cluster_id != identity.cluster_id
            ):
                return Wait((node_id,), _of_another_cluster(names[node_id], cluster_id, identity.cluster_id))
            case Joining():
                return Wait((node_id,), _is_joining(names[node_id]))
            case Empty(controllers=theirs) if tuple(sorted(theirs)) != listed:
                return Wait((node_id,), _lists_differ(names[node_id], theirs, listed))
            case Empty(directory_id=directory_id):
                members.append(Member(node_id, directory_id))
            case Initialised():
                raise AssertionError("decided before")
    if silent:
        return Wait(tuple(silent), _are_silent(names, silent, len(listed)))
    if identity.node_id == listed[0]:
        return WriteFirstVoters(configuration(members))
    return Wait(listed[:1], f"waiting for controller {names[listed[0]]} to write the first voters")


# -- what people read


def _are_silent(names: Mapping[int, str], silent: Mapping[int, str], count: int) -> str:
    whom = ", ".join(f"{names[node_id]} ({reason})" for node_id, reason in silent.items())
    later = ", ".join(f"`quorum add {node_id}`" for node_id in silent)
    noun, it = ("controller", "it") if len(silent) == 1 else ("controllers", "them")
    return f"waiting for {noun} {whom}: the first start needs all {count}; start {it}, or list fewer and {later} later"


def _of_another_cluster(name: str, theirs: str, ours: str) -> str:
    return f"controller {name} is of cluster {theirs}, not {ours}: correct cluster_id, or the list of controllers"


def _is_joining(name: str) -> str:
    return f"controller {name} waits to be added to a cluster that exists: if it is gone for good, restart {name}"


def _lists_differ(name: str, theirs: tuple[int, ...], ours: tuple[int, ...]) -> str:
    lists = f"{', '.join(map(str, theirs))}, not {', '.join(map(str, ours))}"
    return f"controller {name} lists the controllers {lists}: the first start needs the same list on all"
