"""Rules that the driver and the first start have to keep are broken on purpose: the simulator must notice."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
from support.broken_rules import expect_noticed

from lograft.chaos.harness.failures import InvariantBroken
from lograft.chaos.raft.node_simulation import NodeCluster, simulate_nodes
from lograft.chaos.raft.weather import RESTLESS
from lograft.chaos.world.loop import run_virtual
from lograft.raft.bootstrap import bootstrapper as bootstrapping
from lograft.raft.bootstrap import decision as bootstrap
from lograft.raft.bootstrap.decision import Answer, Decision, Unreachable
from lograft.raft.core.configuration import Configuration
from lograft.raft.core.entries import Entry
from lograft.raft.core.ready import Ready
from lograft.raft.core.roles import Leader
from lograft.raft.driver.raft_node import RaftNode
from lograft.raft.driver.snapshots import SnapshotTaker
from lograft.raft.interfaces import StoredState

SHORT = replace(RESTLESS, voters=3, duration_ms=3_000, snapshot_every=5, clients=3)


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


@pytest.mark.parametrize("is_streamed", [False, True], ids=["messages", "streams"])
@pytest.mark.parametrize(
    ("break_rule", "rule"),
    [
        (send_before_saving, "durable"),
        (name_the_first_instead_of_the_last, "applied exactly once, in one order"),
    ],
)
def test_simulator_notices_a_driver_that_breaks_a_rule(
    monkeypatch: pytest.MonkeyPatch,
    break_rule: Callable[[pytest.MonkeyPatch], None],
    rule: str,
    is_streamed: bool,
) -> None:
    said = expect_noticed(
        monkeypatch, break_rule, lambda seed: simulate_nodes(seed, SHORT, is_streamed=is_streamed), seeds=5
    )
    assert rule in said


# -- two nodes of three lose their disks


def _lose_two_disks() -> list[int]:
    """Three nodes work; two come back without their disks, while the third is away. The ids of those that lead then."""

    async def main() -> list[int]:
        async with asyncio.TaskGroup() as group:
            weather = replace(SHORT, faults=(), spares=0)
            cluster = NodeCluster(7, group, weather=weather, is_streamed=True)
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

    return run_virtual(main, max_virtual_seconds=100)


def test_two_wiped_nodes_do_not_make_a_new_cluster() -> None:
    assert _lose_two_disks() == []


def test_simulator_notices_two_wiped_nodes_that_bootstrap(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if those who answer were enough."""
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
    with pytest.raises(BaseExceptionGroup) as caught:
        _lose_two_disks()
    assert caught.group_contains(InvariantBroken, depth=None)
