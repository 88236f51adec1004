"""Six rules of Raft are broken on purpose, one at a time: the simulator must notice each within a few seeds."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from support.broken_rules import expect_noticed

from lograft.chaos.raft.core_disk import CoreDisk
from lograft.chaos.raft.core_node import CoreNode
from lograft.chaos.raft.core_simulation import CoreCluster, simulate_cores
from lograft.chaos.raft.weather import RESTLESS, Weather
from lograft.raft.core import follower as following
from lograft.raft.core import leader as leading
from lograft.raft.core.configuration import Configuration, ConfigurationChange, configuration
from lograft.raft.core.messages import FromLeader, VoteResponse
from lograft.raft.core.peer_progress import PeerProgress
from lograft.raft.core.raft_core import RaftCore
from lograft.raft.core.ready import Ready
from lograft.raft.core.roles import Leader

OPERATED = replace(
    RESTLESS,
    voters=3,
    spares=3,
    fault_every_ms=40,
    faults=(
        "add_learner",
        "add_learner",
        "promote",
        "promote",
        "remove",
        "partition",
        "heal",
        "heal",
        "crash",
        "restart",
    ),
)
WIPED = replace(RESTLESS, voters=3, faults=("wipe", "wipe", "crash", "restart", "restart", "heal"))
FOLDED = replace(RESTLESS, voters=3, snapshot_every=5)
CALM = replace(RESTLESS, voters=3, faults=(), think_ms=(20.0, 200.0))


def commit_by_counting(monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry of an older term is committed because a majority has it (Raft, figure 8)."""
    original = leading._commit

    def commit(core: RaftCore, role: Leader) -> None:
        first_index, role.first_index = role.first_index, 0
        original(core, role)
        role.first_index = first_index

    monkeypatch.setattr(leading, "_commit", commit)


def answer_before_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A vote is given before it is on disk, and forgotten in a crash."""
    original = RaftCore.ready

    def ready(core: RaftCore) -> Ready | None:
        what = original(core)
        if what is None:
            return None
        votes = tuple(envelope for envelope in what.messages if isinstance(envelope.message, VoteResponse))
        others = tuple(envelope for envelope in what.messages if envelope not in votes)
        return replace(what, messages_now=what.messages_now + votes, messages=others)

    monkeypatch.setattr(RaftCore, "ready", ready)


def change_twice_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A membership change is taken while the last is not committed."""
    original = leading.change_configuration

    def change_configuration(core: RaftCore, change: ConfigurationChange) -> int | None:
        if not isinstance(core.role, Leader):
            return None
        commit_index, core.log.commit_index = core.log.commit_index, core.log.last_index
        try:
            return original(core, change)
        finally:
            core.log.commit_index = commit_index

    monkeypatch.setattr(leading, "change_configuration", change_configuration)


def bootstrap_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wiped node takes its configured peers for the voters, itself among them, as if it had promised nothing."""

    def initial(node: CoreNode) -> Configuration:
        world = node._world
        assert isinstance(world, CoreCluster)
        return configuration(world.member_of(node_id) for node_id in world.node_ids[: world.weather.voters])

    def wipe(node: CoreNode) -> CoreDisk:
        voters = initial(node)
        old, node.disk = node.disk, CoreDisk(node.member)
        node.disk.initialise(voters)
        return old

    monkeypatch.setattr(CoreNode, "wipe", wipe)


def keep_the_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The word of a leader does not put off the next election."""
    original = following._follow

    def follow(core: RaftCore, message: FromLeader) -> None:
        election_due_ms, leader = core.election_due_ms, core.leader
        original(core, message)
        if leader == message.sender:
            core.election_due_ms = election_due_ms

    monkeypatch.setattr(following, "_follow", follow)


def apply_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot says that it ends before its last command, which is then applied on top of it."""

    def snapshot_index(node: CoreNode, core: RaftCore) -> int:
        return core.log.applied_index - 1

    monkeypatch.setattr(CoreNode, "_snapshot_index", snapshot_index)


RULES: list[tuple[Callable[[pytest.MonkeyPatch], None], Weather, int, str]] = [
    (commit_by_counting, RESTLESS, 10, "only the own term is counted"),
    (answer_before_durable, RESTLESS, 10, "said only when durable"),
    (change_twice_at_once, OPERATED, 10, "one membership change at a time"),
    (bootstrap_anew, WIPED, 10, "InvariantBroken"),
    (keep_the_timer, CALM, 3, "NotLive: a healthy leader of term"),
    (apply_twice, FOLDED, 3, "applied exactly once, in one order"),
]


@pytest.mark.parametrize(("break_rule", "weather", "seeds", "said"), RULES, ids=[rule[0].__name__ for rule in RULES])
def test_simulator_notices_a_broken_rule(
    monkeypatch: pytest.MonkeyPatch,
    break_rule: Callable[[pytest.MonkeyPatch], None],
    weather: Weather,
    seeds: int,
    said: str,
) -> None:
    assert said in expect_noticed(monkeypatch, break_rule, lambda seed: simulate_cores(seed, weather), seeds)


# -- bugs that the simulator found, put back


def never_resend(monkeypatch: pytest.MonkeyPatch) -> None:
    """An append is lost, its answer never comes, and the leader waits for it for ever."""

    def heartbeat_answered(progress: PeerProgress, heartbeat_round: int) -> None:
        progress.acknowledged_round = max(progress.acknowledged_round, heartbeat_round)

    monkeypatch.setattr(PeerProgress, "heartbeat_answered", heartbeat_answered)


def removed_never_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    """A voter's removal reached its own log alone: nobody else can win, and it does not try (dissertation §4.2.2)."""
    monkeypatch.setattr(RaftCore, "may_stand", property(lambda core: core.is_voter))


LOSSY = replace(RESTLESS, voters=3, faults=(), loss_probability=0.1, think_ms=(50.0, 500.0))
OF_TWO = replace(
    OPERATED,
    voters=2,
    spares=0,
    faults=("remove", "promote", "partition", "crash_leader", "crash_leader", "restart", "add_learner", "heal"),
)


@pytest.mark.parametrize(
    ("put_back", "weather", "seeds"),
    [(never_resend, LOSSY, 5), (removed_never_stand, OF_TWO, 20)],
    ids=["never_resend", "removed_never_stand"],
)
def test_bugs_found_before_would_be_found_again(
    monkeypatch: pytest.MonkeyPatch, put_back: Callable[[pytest.MonkeyPatch], None], weather: Weather, seeds: int
) -> None:
    said = expect_noticed(monkeypatch, put_back, lambda seed: simulate_cores(seed, weather), seeds)
    assert said.startswith("NotLive: 20000 ms after the last fault")
