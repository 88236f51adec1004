"""What a node with an empty store decides: every case of the rule."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from lograft.raft.bootstrap.decision import (
    AcceptFirstVoters,
    Answer,
    Decision,
    Empty,
    Initialised,
    JoinAsLearner,
    Joining,
    StartFromStore,
    Unreachable,
    Wait,
    WriteFirstVoters,
    decide,
    refuse_offer,
)
from lograft.raft.core.configuration import Configuration, Member, configuration
from lograft.raft.core.entries import HardState, SnapshotMetadata
from lograft.raft.interfaces import StoredState, StoreIdentity
from lograft.runtime.rng import Rng

CLUSTER = "c"
DIRECTORIES = {node_id: Rng(node_id).uuid() for node_id in range(1, 10)}
CONTROLLERS = {1: "host1:9093", 2: "host2:9093", 3: "host3:9093"}
ALL = (1, 2, 3)


def member(node_id: int) -> Member:
    return Member(node_id, DIRECTORIES[node_id])


def state(node_id: int) -> StoredState:
    return StoredState(StoreIdentity(CLUSTER, node_id, DIRECTORIES[node_id]))


def empty(node_id: int, cluster_id: str = CLUSTER, controllers: tuple[int, ...] = ALL) -> Empty:
    return Empty(cluster_id, DIRECTORIES[node_id], controllers)


def initialised(node_id: int, voters: Configuration | None, cluster_id: str = CLUSTER) -> Initialised:
    return Initialised(cluster_id, DIRECTORIES[node_id], voters)


FIRST = configuration(member(node_id) for node_id in ALL)
WITHOUT_THIRD = configuration([member(1), member(2)])
REPLACED_THIRD = configuration([member(1), member(2), Member(3, DIRECTORIES[9])])
OLD = configuration([Member(1, DIRECTORIES[8]), Member(2, DIRECTORIES[9]), member(3)])
ACCEPT = AcceptFirstVoters(FIRST)

# -- the rule


def waits_for(*node_ids: int) -> Callable[[Decision], bool]:
    return lambda decision: isinstance(decision, Wait) and decision.node_ids == node_ids


def is_exactly(wanted: Decision) -> Callable[[Decision], bool]:
    return lambda decision: decision == wanted


DECISIONS: list[tuple[str, int, dict[int, Answer], Callable[[Decision], bool]]] = [
    ("all empty: the lowest writes", 1, {2: empty(2), 3: empty(3)}, is_exactly(WriteFirstVoters(FIRST))),
    ("all empty: the others wait for it", 2, {1: empty(1), 3: empty(3)}, waits_for(1)),
    ("one is away", 1, {2: empty(2), 3: Unreachable("refused")}, waits_for(3)),
    ("two are away", 1, {2: Unreachable("refused"), 3: Unreachable("refused")}, waits_for(2, 3)),
    ("nobody was asked", 1, {}, waits_for(2, 3)),
    ("one is of another cluster", 1, {2: empty(2), 3: empty(3, "other")}, waits_for(3)),
    ("one takes part in another cluster", 1, {2: empty(2), 3: initialised(3, FIRST, "other")}, waits_for(3)),
    ("one lists other controllers", 1, {2: empty(2), 3: empty(3, controllers=(3,))}, waits_for(3)),
    ("one is joining", 1, {2: empty(2), 3: Joining(CLUSTER)}, waits_for(3)),
    ("named by one who takes part", 3, {1: initialised(1, FIRST), 2: empty(2)}, is_exactly(ACCEPT)),
    ("named, the others away", 3, {1: initialised(1, FIRST)}, is_exactly(ACCEPT)),
    ("not named", 3, {1: initialised(1, WITHOUT_THIRD), 2: empty(2)}, is_exactly(JoinAsLearner())),
    ("named by an older disk", 3, {1: initialised(1, REPLACED_THIRD)}, is_exactly(JoinAsLearner())),
    ("a cluster with a snapshot", 3, {1: initialised(1, None)}, is_exactly(JoinAsLearner())),
    ("named by one of two", 3, {1: initialised(1, None), 2: initialised(2, FIRST)}, is_exactly(ACCEPT)),
    ("named by one who is not", 3, {4: initialised(4, FIRST)}, is_exactly(JoinAsLearner())),
    ("two wiped at once, the third down", 1, {2: empty(2), 3: Unreachable("refused")}, waits_for(3)),
    ("two wiped at once, the third up", 1, {2: empty(2), 3: initialised(3, OLD)}, is_exactly(JoinAsLearner())),
    ("not a configured controller", 4, {1: empty(1), 2: empty(2), 3: empty(3)}, is_exactly(JoinAsLearner())),
]  # fmt: skip


@pytest.mark.parametrize(
    ("node_id", "answers", "is_right"), [row[1:] for row in DECISIONS], ids=[row[0] for row in DECISIONS]
)
def test_what_an_empty_store_makes_of_the_answers(
    node_id: int, answers: Mapping[int, Answer], is_right: Callable[[Decision], bool]
) -> None:
    decision = decide(state(node_id), CONTROLLERS, answers)
    assert is_right(decision), decision


@pytest.mark.parametrize("answers", [{}, {2: empty(2), 3: empty(3)}, {2: initialised(2, WITHOUT_THIRD)}])
@pytest.mark.parametrize(
    "saved", [{"hard_state": HardState(1)}, {"snapshot": SnapshotMetadata(0, 0, FIRST)}], ids=["term", "voters"]
)
def test_a_store_with_anything_in_it_is_left_as_it_is(saved: dict[str, Any], answers: Mapping[int, Answer]) -> None:
    assert decide(replace(state(1), **saved), CONTROLLERS, answers) == StartFromStore()


def test_a_single_controller_needs_nobody() -> None:
    assert decide(state(1), {1: "host1:9093"}, {}) == WriteFirstVoters(configuration([member(1)]))


def test_the_reason_names_whom_the_start_waits_for_and_what_to_do() -> None:
    def reason(**answers: Answer) -> str:
        decision = decide(state(1), CONTROLLERS, {2: answers.get("two", empty(2)), 3: answers.get("three", empty(3))})
        assert isinstance(decision, Wait)
        return decision.reason

    assert reason(three=Unreachable("refused")) == (
        "waiting for controller 3@host3:9093 (refused): the first start needs all 3; "
        "start it, or list fewer and `quorum add 3` later"
    )
    assert reason(two=Unreachable("refused"), three=Unreachable("no answer within 1000 ms")) == (
        "waiting for controllers 2@host2:9093 (refused), 3@host3:9093 (no answer within 1000 ms): "
        "the first start needs all 3; start them, or list fewer and `quorum add 2`, `quorum add 3` later"
    )
    assert "3@host3:9093 is of cluster x, not c" in reason(three=empty(3, "x"))
    assert "3@host3:9093 lists the controllers 2, 3, not 1, 2, 3" in reason(three=empty(3, controllers=(2, 3)))
    assert "3@host3:9093 waits to be added" in reason(three=Joining(CLUSTER))


@pytest.mark.parametrize(
    ("receiver", "cluster_id", "sender", "voters", "reason"),
    [
        (state(3), CLUSTER, member(1), FIRST, None),
        (state(3), "other", member(1), FIRST, "is of cluster c, not other"),
        (replace(state(3), hard_state=HardState(1)), CLUSTER, member(1), FIRST, "is not empty"),
        (state(3), CLUSTER, member(1), REPLACED_THIRD, "is not among the first voters"),
        (state(3), CLUSTER, Member(1, DIRECTORIES[9]), FIRST, "who offers them, is not among"),
    ],
)
def test_an_offer_is_accepted_only_by_an_empty_store_that_it_names(
    receiver: StoredState, cluster_id: str, sender: Member, voters: Configuration, reason: str | None
) -> None:
    refusal = refuse_offer(receiver, cluster_id, sender, voters)
    assert refusal is None if reason is None else refusal is not None and reason in refusal
