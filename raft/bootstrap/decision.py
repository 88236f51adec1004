"""How a node with an empty store joins the quorum: the decision. Pure.

An empty store never votes, because it cannot know what the node promised before it lost its disk. There are two ways to
get a vote:

- The first start of a cluster. *Every* configured controller must answer that it is empty: only then is it certain that
  no cluster exists yet. The controller with the lowest id writes the first voters, each with the directory id it
  answered with, into its own store, and then offers them to the others. A node whose own directory id is among them
  accepts, and votes: under that id it never promised anything.
- Otherwise a cluster exists, and the node waits until an operator adds it, first as a learner.

A lost offer does no harm: initialised nodes answer probes with the first voters, and empty nodes keep probing. A
repeated offer finds the store no longer empty. An old offer, from a node that then lost its disk and wrote another,
differs only in that dead member: majorities of both contain a common node, so they still intersect.
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
    """Nothing was ever saved in its store; `controllers` are the ids in that node's own settings."""

    cluster_id: str
    directory_id: UUID
    controllers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Joining:
    """Its store is empty, but it knows that the cluster exists, and waits to be added."""

    cluster_id: str


@dataclass(frozen=True, slots=True)
class Initialised:
    """It has joined. `first_voters` is None if it joined later, or compacted them into a snapshot."""

    cluster_id: str
    directory_id: UUID
    first_voters: Configuration | None


Answer: TypeAlias = Unreachable | Empty | Joining | Initialised

# -- what to do


@dataclass(frozen=True, slots=True)
class StartFromStore:
    """The store is not empty: start from its content."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait for these nodes; `reason` explains it to operators."""

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
    """Stay silent until an operator adds this node."""


Decision: TypeAlias = StartFromStore | Wait | WriteFirstVoters | AcceptFirstVoters | JoinAsLearner


def decide(state: StoredState, controllers: Mapping[int, str], answers: Mapping[int, Answer]) -> Decision:
    """Decide from one round of `answers`, by node id. `controllers`: all configured addresses, this node's included."""
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
    """Return why this node does not take these first voters over; None if it does."""
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
    return f"controller {name} waits to be added to an existing cluster: if that cluster is gone, restart {name}"


def _lists_differ(name: str, theirs: tuple[int, ...], ours: tuple[int, ...]) -> str:
    lists = f"{', '.join(map(str, theirs))}, not {', '.join(map(str, ours))}"
    return f"controller {name} lists the controllers {lists}: the first start needs the same list on all"
