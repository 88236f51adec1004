"""Whatever happens in whatever order: what is acknowledged is there, what is refused is not, and answers are true."""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pytest
from support.metadata_quorum import MetadataCluster
from support.raft_nodes import virtual
from support.scripted_quorum import Office, in_office, list_names, name_topic, settle

from lograft.metadata.controller.active_controller import Committed
from lograft.metadata.decisions.decision import Decision
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import TopicId
from lograft.metadata.image.record_codec import decode_operation
from lograft.metadata.image.records import Record, TopicCreated, TopicDeleted
from lograft.metadata.image.state_machine import MachineListener, MetadataMachine
from lograft.proto import errors_pb2
from lograft.raft.driver.snapshots import SnapshotPolicy
from lograft.raft.errors import NotLeader, Overloaded, RaftError
from lograft.rpc.coded_error import ControllerError
from lograft.runtime.rng import Rng

NAMES = ["a", "b", "c", "d"]


def delete_topic(name: str) -> Callable[[ClusterImage], Decision[TopicId | None]]:
    def decide(image: ClusterImage) -> Decision[TopicId | None]:
        topic_id = image.topic_ids.get(name)
        return Decision((TopicDeleted(topic_id),) if topic_id is not None else (), topic_id)

    return decide


# -- what was asked and answered, and what really happened


@dataclass(frozen=True)
class Moment:
    """The names that were taken, by which topic, after an operation; and since when."""

    index: int
    time: float
    taken: dict[str, int]


class Truth(MachineListener):
    """The states of the quorum, as its members apply them; all of them the same."""

    def __init__(self) -> None:
        self.moments = [Moment(0, 0.0, {})]
        self.created: dict[int, int] = {}  # by number of the topic: at which index

    def applied(self, index: int, records: tuple[Record, ...]) -> None:
        if index <= self.moments[-1].index:
            known = next(moment for moment in self.moments if moment.index == index)
            previous = self.moments[self.moments.index(known) - 1]
            assert known.taken == _after(previous.taken, records), "two members differ"
            return
        for record in records:
            if isinstance(record, TopicCreated):
                assert record.topic_id.int not in self.created, "created twice"
                self.created[record.topic_id.int] = index
        taken = _after(self.moments[-1].taken, records)
        self.moments.append(Moment(index, asyncio.get_running_loop().time(), taken))

    def within(self, begin: float, end: float) -> list[dict[str, int]]:
        """Every state that may have been the newest at some time between these."""
        ends = [moment.time for moment in self.moments[1:]] + [end]
        return [
            moment.taken
            for moment, over in zip(self.moments, ends, strict=True)
            if over >= begin and moment.time <= end
        ]


def _after(taken: dict[str, int], records: tuple[Record, ...]) -> dict[str, int]:
    after = dict(taken)
    for record in records:
        if isinstance(record, TopicCreated):
            after[record.name] = record.topic_id.int
        elif isinstance(record, TopicDeleted):
            after = {name: number for name, number in after.items() if number != record.topic_id.int}
    return after


@dataclass
class History:
    truth: Truth
    number: int = 0
    counts: dict[str, int] = field(default_factory=dict)

    async def ask(self, submit: Callable[[Any], Any], rng: Rng) -> None:
        """Ask something of a controller; find its answer right, whatever it is."""
        self.number += 1
        number, name = self.number, rng.choice(NAMES)
        begin = asyncio.get_running_loop().time()
        kind = rng.choice(["create", "create", "delete", "list"])
        decide: Any = {"create": name_topic(name, number), "delete": delete_topic(name), "list": list_names}[kind]
        outcome: Committed[Any] | ControllerError
        try:
            outcome = await submit(decide)
        except ControllerError as error:
            outcome = error
        states = self.truth.within(begin, asyncio.get_running_loop().time())
        match kind, outcome:
            case "create", Committed(answer=answer, index=index):
                assert answer == UUID(int=number)
                assert self.truth.created[number] == index
            case "create", ControllerError(code=errors_pb2.TOPIC_ALREADY_EXISTS):
                assert any(state.get(name) == int(str(outcome)) for state in states), "the name was free"
                assert number not in self.truth.created
            case "create", ControllerError() if not outcome.outcome_unknown:
                self.must_stay_away(number)
            case "delete", Committed(answer=None):
                assert any(name not in state for state in states), "the name was taken all the time"
            case "delete", Committed(answer=answer):
                assert any(state.get(name) == answer.int for state in states), "it was another"
            case "list", Committed(answer=answer):
                assert any(sorted(state) == answer for state in states), "never so"
            case _:
                pass
        what = errors_pb2.ErrorCode.Name(outcome.code) if isinstance(outcome, ControllerError) else "done"
        self.counts[f"{kind} {what}"] = self.counts.get(f"{kind} {what}", 0) + 1

    def must_stay_away(self, number: int) -> None:
        assert number not in self.truth.created, "done although refused"
        self.truth.created[number] = -1  # and if it comes yet, it is there twice


def check_replay(machine: MetadataMachine) -> None:
    """The image is what its operations make of nothing."""
    replayed = ClusterImage()
    deltas = machine.deltas.since(0)
    assert deltas is not None
    for delta in deltas:
        assert replayed.apply_operation(decode_operation(delta.data))
    assert replayed == machine.image


# -- a node whose every step is drawn


@pytest.mark.parametrize("seed", range(20))
def test_any_order_of_commits_losses_and_refusals(seed: int) -> None:
    rng = Rng(seed)

    @virtual
    async def scenario() -> None:
        async with in_office() as office:
            truth = Truth()
            office.machine.listen(truth)
            history = History(truth)
            async with asyncio.TaskGroup() as group:
                asking: list[asyncio.Task[None]] = []
                for _ in range(300):
                    draw_step(office, rng)
                    for _ in range(rng.randrange(3)):
                        asking.append(group.create_task(history.ask(office.controller.submit, rng)))
                    if rng.random() < 0.1:
                        rng.choice(asking or [group.create_task(asyncio.sleep(0))]).cancel()
                    for _ in range(rng.randrange(4)):  # few steps, so that things happen between others
                        await asyncio.sleep(0)
                    await asyncio.sleep(rng.choice([0, 0.001]))
                await come_to_rest(office)
            check_replay(office.machine)
            assert office.controller.image == office.machine.image
            assert history.counts["create done"] > 5

    scenario()


def draw_step(office: Office, rng: Rng) -> None:
    node = office.node
    if node.leader != node.member:
        if rng.random() < 0.4:
            name, number = rng.choice(NAMES), rng.getrandbits(60) | 1 << 61
            taken = office.machine.image.topic_ids.get(name)
            node.commit_of_others(TopicDeleted(taken) if taken else TopicCreated(TopicId(UUID(int=number)), name))
        else:
            node.lead()
        return
    steps: list[tuple[int, Callable[[], None]]] = [
        (6, node.take_in),
        (6, lambda: node.commit(rng.randrange(4))),
        (2, node.answer_reads),
        (2, lambda: node.refuse_queued(rng.choice([NotLeader(None), Overloaded("full")]))),
        (1, lambda: node.lose(rng.choice([None, 2]), rng.randrange(len(node.appended) + 1))),
    ]
    rng.choices([step for _, step in steps], [weight for weight, _ in steps])[0]()


async def come_to_rest(office: Office) -> None:
    if office.node.leader != office.node.member:
        office.node.lead()
    for _ in range(5):
        office.node.answer_reads()
        office.node.commit()
        await settle()


# -- real nodes


@pytest.mark.parametrize("seed", range(4))
def test_a_real_quorum_in_bad_weather(seed: int) -> None:
    @virtual
    async def scenario() -> None:
        rng = Rng(seed)
        cluster = MetadataCluster(3, seed=seed, policy=SnapshotPolicy(entries=40, kept_entries=10))
        await cluster.initialise([1, 2, 3])
        truth = Truth()
        for host in cluster.hosts.values():
            await host.start()
            host.machine.listen(truth)
        history = History(truth)
        async with asyncio.TaskGroup() as group:
            clients = [group.create_task(ask_around(cluster, history, rng.fork())) for _ in range(4)]
            await make_weather(cluster, truth, rng.fork())
            for client in clients:
                client.cancel()
        await cluster.until(lambda: any(host.controller.is_active for host in cluster.hosts.values()))
        active = next(host for host in cluster.hosts.values() if host.controller.is_active)
        await active.controller.submit(name_topic("last", 1 << 62))
        await cluster.until(lambda: all("last" in host.machine.image.topic_ids for host in cluster.hosts.values()))
        images = [host.machine.image for host in cluster.hosts.values()]
        assert images[0] == images[1] == images[2]
        assert history.counts["create done"] > 50
        for host in cluster.hosts.values():
            await host.stop()

    scenario()


async def ask_around(cluster: MetadataCluster, history: History, rng: Rng) -> None:
    while True:
        await asyncio.sleep(rng.uniform(0, 0.02))
        host = cluster[rng.choice([1, 2, 3])]
        if host.node is not None:
            await history.ask(host.controller.submit, rng)


async def make_weather(cluster: MetadataCluster, truth: Truth, rng: Rng) -> None:
    for _ in range(10):
        await asyncio.sleep(rng.uniform(0.5, 1.5))
        leader = await cluster.leader()
        kind = rng.choice(["isolate", "transfer", "crash"])
        if kind == "isolate":
            cluster.wires.isolate(leader.node_id)
            await asyncio.sleep(rng.uniform(0.1, 3))
            cluster.wires.heal()
        elif kind == "transfer":
            assert leader.node is not None
            with contextlib.suppress(RaftError):
                await leader.node.transfer_leadership(rng.choice([1, 2, 3]))
        else:
            await leader.crash()
            await asyncio.sleep(rng.uniform(0.1, 2))
            await leader.start()
            cluster[leader.node_id].machine.listen(truth)
