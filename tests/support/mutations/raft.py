"""Rules of Raft, of its driver and of the first start, each broken on purpose."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace

import pytest

from lograft.chaos.metadata.simulation import first_cause
from lograft.chaos.raft.core_disk import CoreDisk
from lograft.chaos.raft.core_node import CoreNode
from lograft.chaos.raft.core_simulation import CoreCluster
from lograft.chaos.raft.node_simulation import NodeCluster
from lograft.chaos.raft.weather import RESTLESS
from lograft.chaos.world.loop import run_virtual
from lograft.raft.bootstrap import bootstrapper as bootstrapping
from lograft.raft.bootstrap import decision as bootstrap
from lograft.raft.bootstrap.decision import Answer, Decision, Unreachable
from lograft.raft.core import follower as following
from lograft.raft.core import leader as leading
from lograft.raft.core.configuration import Configuration, ConfigurationChange, configuration
from lograft.raft.core.entries import Entry
from lograft.raft.core.messages import FromLeader, VoteResponse
from lograft.raft.core.peer_progress import PeerProgress
from lograft.raft.core.raft_core import RaftCore
from lograft.raft.core.ready import Ready
from lograft.raft.core.roles import Leader
from lograft.raft.driver.raft_node import RaftNode
from lograft.raft.driver.snapshots import SnapshotTaker
from lograft.raft.interfaces import StoredState

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


QUIET = replace(RESTLESS, voters=3, faults=(), think_ms=(20.0, 200.0))


LOSSY = replace(RESTLESS, voters=3, faults=(), loss_probability=0.1, think_ms=(50.0, 500.0))


OF_TWO = replace(
    OPERATED,
    voters=2,
    spares=0,
    faults=("remove", "promote", "partition", "crash_leader", "crash_leader", "restart", "add_learner", "heal"),
)


SHORT = replace(RESTLESS, voters=3, duration_ms=3_000, snapshot_every=5, clients=3)


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


# -- bugs that the simulator found, put back


def never_resend(monkeypatch: pytest.MonkeyPatch) -> None:
    """An append is lost, its answer never comes, and the leader waits for it for ever."""

    def heartbeat_answered(progress: PeerProgress, heartbeat_round: int) -> None:
        progress.acknowledged_round = max(progress.acknowledged_round, heartbeat_round)

    monkeypatch.setattr(PeerProgress, "heartbeat_answered", heartbeat_answered)


def removed_never_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    """A voter's removal reached its own log alone: nobody else can win, and it does not try (dissertation §4.2.2)."""
    monkeypatch.setattr(RaftCore, "may_stand", property(lambda core: core.is_voter))


# -- the driver


def send_before_saving(monkeypatch: pytest.MonkeyPatch) -> None:
    original = RaftNode._carry_out

    async def carry_out(node: RaftNode, ready: Ready, group: asyncio.TaskGroup) -> None:
        early = replace(ready, messages_now=ready.messages_now + ready.messages, messages=())
        await original(node, early, group)

    monkeypatch.setattr(RaftNode, "_carry_out", carry_out)


def name_the_first_instead_of_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot is said to end where the entries just applied began: they are applied on top of it again."""
    original = SnapshotTaker.applied

    def applied(
        taker: SnapshotTaker, entries: tuple[Entry, ...], configuration: Configuration, group: asyncio.TaskGroup
    ) -> None:
        last = replace(entries[-1], index=entries[0].index, term=entries[0].term)
        original(taker, (*entries[:-1], last), configuration, group)

    monkeypatch.setattr(SnapshotTaker, "applied", applied)


# -- two nodes of three lose their disks


def lose_two_disks(seed: int) -> None:
    """Three nodes work; two come back without their disks, while the third is away: nobody leads."""

    async def main() -> list[int]:
        async with asyncio.TaskGroup() as group:
            weather = replace(SHORT, faults=(), spares=0)
            cluster = NodeCluster(seed, group, weather=weather, is_streamed=True)
            await cluster.start()
            cluster.clients.start()
            await cluster.pass_ms(2_000)
            assert len(cluster.invariants.committed) > 10
            for node_id in cluster.node_ids:
                cluster.crash(node_id)
            for node_id in (1, 2):
                cluster.wipe(node_id)
                cluster.restart(node_id)
            await cluster.pass_ms(5_000)
            cluster.restart(3)
            await cluster.pass_ms(5_000)
            leaders = [
                standing.core.member.node_id
                for standing in cluster.standings()
                if isinstance(standing.core.role, Leader)
            ]
            cluster.clients.stop()
            cluster.stop()
        return leaders

    try:
        leaders = run_virtual(main, max_virtual_seconds=100)
    except BaseExceptionGroup as group:
        raise first_cause(group) from group
    assert leaders == []


def bootstrap_with_those_who_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    original = bootstrap.decide

    def decide(state: StoredState, controllers: Mapping[int, str], answers: Mapping[int, Answer]) -> Decision:
        present = {
            node_id: address
            for node_id, address in controllers.items()
            if node_id == state.identity.node_id or not isinstance(answers.get(node_id), Unreachable)
        }
        heard = {
            node_id: replace(answer, controllers=tuple(present)) if isinstance(answer, bootstrap.Empty) else answer
            for node_id, answer in answers.items()
        }
        return original(state, present if len(present) > 1 else controllers, heard)

    monkeypatch.setattr(bootstrapping, "decide", decide)
