"""Three real processes, real sockets, real disks, and kill -9."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.raft_processes import ProcessGone, RaftProcess, RaftProcesses, Refused

DEADLINE_SECONDS = 180
ROUNDS = 20
CLIENTS = 8
ACKNOWLEDGED_PER_ROUND = 40


def run(directory: Path, scenario: Callable[[RaftProcesses], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(DEADLINE_SECONDS), RaftProcesses(directory) as cluster:
            await scenario(cluster)

    asyncio.run(main())


@dataclass
class History:
    """What clients were told of their proposals, by name."""

    acknowledged: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


class Client:
    """Proposes one thing after another, to whoever seems to lead, and never the same thing twice."""

    def __init__(self, name: str, cluster: RaftProcesses, history: History) -> None:
        self._name = name
        self._nodes = cluster.nodes
        self._history = history
        self._target = 1

    async def propose_for_ever(self) -> None:
        number = 0
        while True:
            number += 1
            await self._propose(f"{self._name}-{number}")

    async def _propose(self, name: str) -> None:
        try:
            await self._nodes[self._target].call("propose", name=name)
        except Refused as error:
            (self._history.unknown if error.is_unknown else self._history.refused).append(name)
            self._look_elsewhere(error.leader)
            await asyncio.sleep(0.01)
        except ProcessGone:
            self._history.unknown.append(name)
            self._look_elsewhere(None)
            await asyncio.sleep(0.01)
        else:
            self._history.acknowledged.append(name)

    def _look_elsewhere(self, leader: int | None) -> None:
        self._target = leader or self._target % len(self._nodes) + 1


async def until_agreed(cluster: RaftProcesses) -> list[list[str]]:
    """What each node has, once all have applied all that is committed anywhere."""
    while True:
        for node in cluster.nodes.values():
            node.check_running()
        statuses = [await node.status() for node in cluster.nodes.values()]
        indexes = [status.get(key) for status in statuses for key in ("commit", "applied")]
        if len(Counter(indexes)) == 1 and indexes[0]:
            return [await node.call("names") for node in cluster.nodes.values()]
        await asyncio.sleep(0.01)


async def propose(cluster: RaftProcesses, name: str) -> Any:
    """By whoever leads: on a busy machine that may be another one from one moment to the next."""
    while True:
        leader = await cluster.until_led()
        try:
            return await leader.call("propose", name=name)
        except Refused as error:
            if error.is_unknown:
                raise


async def kill_leaders(cluster: RaftProcesses, history: History) -> None:
    for _ in range(ROUNDS):
        leader = await cluster.until_led()
        enough = len(history.acknowledged) + ACKNOWLEDGED_PER_ROUND
        while len(history.acknowledged) < enough:  # noqa: ASYNC110 (the clients have no event for it)
            await asyncio.sleep(0.005)
        leader.kill()
        await cluster.until_led(other_than=leader.node_id)
        leader.start()
        # A majority of the next round must not rest on one that is still starting.
        await leader.until(lambda status: status["role"] == "follower" and status["leader"] is not None)


def test_twenty_kills_of_whoever_leads_lose_nothing_and_repeat_nothing(tmp_path: Path) -> None:
    history = History()

    async def scenario(cluster: RaftProcesses) -> None:
        cluster.start_all()
        await cluster.until_led()
        async with asyncio.TaskGroup() as group:
            clients = [Client(f"client{number}", cluster, history) for number in range(CLIENTS)]
            loads = [group.create_task(client.propose_for_ever()) for client in clients]
            await kill_leaders(cluster, history)
            for load in loads:
                load.cancel()
        first, second, third = await until_agreed(cluster)
        assert first == second == third
        times = Counter(first)
        assert [name for name in history.acknowledged if times[name] != 1] == []
        assert [name for name in history.unknown if times[name] > 1] == []
        assert [name for name in history.refused if times[name] != 0] == []
        assert len(history.acknowledged) >= ROUNDS * ACKNOWLEDGED_PER_ROUND
        assert [node.stop() for node in cluster.nodes.values()] == [0, 0, 0]

    run(tmp_path, scenario)


def test_the_first_start_waits_for_all_and_says_for_whom(tmp_path: Path) -> None:
    async def scenario(cluster: RaftProcesses) -> None:
        for node_id in (1, 2):
            cluster.nodes[node_id].start()
        missing = f"3@{cluster.nodes[3].address}"
        expected = (
            f"waiting for controller {missing} (refused): the first start needs all 3; "
            "start it, or list fewer and `quorum add 3` later"
        )
        for node_id in (1, 2):
            await cluster.nodes[node_id].until(lambda status: status.get("reason") == expected)
        cluster.nodes[3].start()
        assert await propose(cluster, "first") == 1

    run(tmp_path, scenario)


def test_a_node_that_lost_its_disk_has_no_vote_until_it_is_made_a_voter_again(tmp_path: Path) -> None:
    async def scenario(cluster: RaftProcesses) -> None:
        cluster.start_all()
        leader = await cluster.until_led()
        wiped, other = (node for node in cluster.nodes.values() if node is not leader)
        await propose(cluster, "before")
        old_directory = (await wiped.status())["directory"]
        wiped.kill()
        wiped.wipe()
        wiped.start()
        status = await wiped.until(lambda status: status["role"] == "learner")
        new_directory = status["directory"]
        assert new_directory != old_directory
        assert (status["voters"], await wiped.call("names")) == ([], [])

        # Of three voters one is left: the node without a vote does not make them two, however long they are asked.
        other.kill()
        await leader.until(lambda status: status["role"] == "pre-candidate")
        await leader.until(lambda status: status["role"] != "leader" and status["leader"] is None)
        assert (await wiped.status())["term"] == 0
        other.start()
        leader = await cluster.until_led(other_than=wiped.node_id)

        # `quorum replace`: out with the old, in with the new.
        await change(leader, "remove", wiped, old_directory)
        await change(leader, "add", wiped, new_directory)
        await wiped.until(lambda status: new_directory in status.get("learners", []))
        await change(leader, "promote", wiped, new_directory)
        await wiped.until(lambda status: status["role"] == "follower" and new_directory in status["voters"])
        assert await wiped.call("names") == ["before"]
        leader.kill()
        await cluster.until_led(other_than=leader.node_id)  # which takes both that are left

    run(tmp_path, scenario)


async def change(leader: RaftProcess, kind: str, node: RaftProcess, directory: str) -> None:
    """Once the leader finds it possible: its term has committed something, and who is promoted has caught up."""
    while True:
        try:
            await leader.call("change", kind=kind, node_id=node.node_id, directory=directory)
            return
        except Refused as error:
            if error.kind != "ChangeRefused":
                raise
            await asyncio.sleep(0.02)


def test_a_second_process_on_the_same_directory_is_refused(tmp_path: Path) -> None:
    async def scenario(cluster: RaftProcesses) -> None:
        cluster.start_all()
        leader = await cluster.until_led()
        second = leader.start_second()
        assert second.returncode == 2
        assert "is in use by another process" in second.stderr
        await propose(cluster, "undisturbed")
        assert await until_agreed(cluster) == [["undisturbed"]] * 3

    run(tmp_path, scenario)
