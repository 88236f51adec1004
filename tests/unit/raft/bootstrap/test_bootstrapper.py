"""The first start, over a network: asking, offering, and what may come between."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from support.raft_nodes import make_runtime, virtual

from lograft.chaos.world.network import VirtualNetwork
from lograft.chaos.world.raft_store import MemoryDisk, MemoryStore
from lograft.chaos.world.workers import DiskSpeed
from lograft.raft.bootstrap.bootstrapper import OFFER_METHOD, PROBE_METHOD, Bootstrapper, BootstrapTiming
from lograft.raft.bootstrap.codec import Offer, decode_answer, decode_offer_answer, encode_offer, encode_probe
from lograft.raft.bootstrap.decision import (
    Empty,
    Initialised,
    Joining,
)
from lograft.raft.core.configuration import Configuration, Member, configuration
from lograft.raft.core.entries import SnapshotMetadata
from lograft.raft.interfaces import StoredState
from lograft.raft.store.errors import StoreFailed
from lograft.runtime.network import Server, Status, StreamError
from lograft.runtime.rng import Rng

CLUSTER = "c"
ALL = (1, 2, 3)
ELSEWHERE = Rng(99).uuid()


class Controller:
    """A node up to the moment where it would start its Raft part; its disk stays."""

    def __init__(self, world: "World", node_id: int) -> None:
        self._world = world
        self.node_id = node_id
        self.disk = MemoryDisk(world.cluster_ids.get(node_id, CLUSTER), node_id, Rng(node_id))
        self.store: MemoryStore | None = None
        self.bootstrapping: Bootstrapper | None = None
        self.task: asyncio.Task[StoredState] | None = None
        self.server: Server | None = None

    async def start(self, controllers: tuple[int, ...] = ALL, timing: BootstrapTiming | None = None) -> None:
        runtime = make_runtime(self.node_id, self._world.network, f"n{self.node_id}")
        self.speed = DiskSpeed(runtime.rng.fork())
        self.store = self.disk.open(self.speed, runtime.rng.fork())
        addresses = {node_id: f"n{node_id}:1" for node_id in controllers}
        self.bootstrapping = Bootstrapper(runtime, self.store, await self.store.load(), addresses, timing)
        handlers = self.bootstrapping.handlers()
        self.server = await runtime.network.serve(f"n{self.node_id}:1", handlers, self._world.panics.append)
        self.task = asyncio.ensure_future(self.bootstrapping.run())

    async def crash(self) -> None:
        assert self.store is not None
        assert self.task is not None
        self.store.kill()
        self._world.network.crash(f"n{self.node_id}")
        self.task.cancel()
        await asyncio.wait([self.task])
        self.task = None

    @property
    def is_decided(self) -> bool:
        return self.task is not None and self.task.done()

    @property
    def reason(self) -> str | None:
        assert self.bootstrapping is not None
        return self.bootstrapping.waiting_reason

    @property
    def voters(self) -> tuple[Member, ...]:
        """As it is on the disk."""
        return self.disk.content.snapshot.metadata.configuration.voters

    @property
    def member(self) -> Member:
        return self.disk.content.identity.member

    async def result(self) -> StoredState:
        assert self.task is not None
        return await asyncio.shield(self.task)


class World:
    def __init__(self, cluster_ids: Mapping[int, str] | None = None) -> None:
        self.cluster_ids = cluster_ids or {}
        self.network = VirtualNetwork(Rng(7))
        self.panics: list[BaseException] = []
        self.controllers = {node_id: Controller(self, node_id) for node_id in ALL}

    def __getitem__(self, node_id: int) -> Controller:
        return self.controllers[node_id]

    async def call(self, node_id: int, method: str, request: bytes) -> bytes:
        connection = await self.network.host("client").connect(f"n{node_id}:1")
        stream = connection.open(method)
        await stream.send(request)
        await stream.half_close()
        answer = await stream.receive()
        await connection.close()
        assert answer is not None
        return answer


@asynccontextmanager
async def world(*started: int, cluster_ids: Mapping[int, str] | None = None) -> AsyncIterator[World]:
    made = World(cluster_ids)
    for node_id in started:
        await made[node_id].start()
    yield made
    for controller in made.controllers.values():
        if controller.task is not None:
            await controller.crash()
    assert made.panics == []


@virtual
async def test_three_empty_controllers_become_the_first_voters() -> None:
    async with world(3, 2, 1) as three:
        states = [await three[node_id].result() for node_id in ALL]
        expected = configuration(three[node_id].member for node_id in ALL)
        assert all(state.snapshot == SnapshotMetadata(0, 0, expected) for state in states)
        assert all(three[node_id].voters == expected.voters for node_id in ALL)
        assert all(three[node_id].reason is None for node_id in ALL)
        assert asyncio.get_running_loop().time() < 1


@virtual
async def test_a_single_controller_starts_at_once() -> None:
    alone = World()
    await alone[1].start(controllers=(1,))
    assert (await alone[1].result()).snapshot.configuration.voters == (alone[1].member,)
    await alone[1].crash()


@virtual
async def test_the_first_start_waits_for_the_last_one_and_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "lograft.raft")
    async with world(1, 2) as three:
        await asyncio.sleep(60)
        for node_id in (1, 2):
            assert not three[node_id].is_decided
            assert three[node_id].voters == ()
            assert three[node_id].reason == (
                "waiting for controller 3@n3:1 (refused): the first start needs all 3; "
                "start it, or list fewer and `quorum add 3` later"
            )
        assert len([record for record in caplog.records if "quorum add 3" in record.getMessage()]) == 2
        await three[3].start()
        assert (await three[3].result()).snapshot.configuration.voters == three[1].voters
        assert len(three[1].voters) == 3


async def restarted_as_learner(three: World, node_id: int) -> StoredState:
    await three[node_id].crash()
    three[node_id].disk.wipe()
    await three[node_id].start()
    return await three[node_id].result()


@virtual
async def test_two_wiped_at_once_do_not_begin_another_cluster() -> None:
    async with world(1, 2, 3) as three:
        for node_id in ALL:
            await three[node_id].result()
        for node_id in ALL:
            await three[node_id].crash()
        for node_id in (1, 2):
            three[node_id].disk.wipe()
            await three[node_id].start()
        await asyncio.sleep(60)
        assert not three[1].is_decided
        assert not three[2].is_decided
        await three[3].start()
        for node_id in (1, 2):
            assert (await three[node_id].result()).is_empty
            assert three[node_id].bootstrapping is not None
            assert three[node_id].bootstrapping.is_joining
        assert (await three[3].result()).snapshot.configuration.voters == three[3].voters != ()


@virtual
async def test_a_wiped_node_joins_as_a_learner_even_if_it_has_the_lowest_id() -> None:
    async with world(1, 2, 3) as three:
        for node_id in ALL:
            await three[node_id].result()
        assert (await restarted_as_learner(three, 1)).is_empty
        assert three[1].voters == ()


@virtual
async def test_a_writer_that_dies_before_its_offers_is_asked_when_it_is_back() -> None:
    async with world(1, 2, 3) as three:
        expected = configuration(three[node_id].member for node_id in ALL)
        while three[1].voters == ():  # noqa: ASYNC110 (there is no event for it)
            await asyncio.sleep(0.00001)
        await three[1].crash()  # they are on its disk, and nobody has heard of them
        await asyncio.sleep(5)
        assert not three[2].is_decided
        assert not three[3].is_decided
        await three[1].start()
        for node_id in ALL:
            assert (await three[node_id].result()).snapshot.configuration == expected


@virtual
async def test_an_offer_saves_those_who_wait_the_asking() -> None:
    async with world() as three:
        for node_id in (2, 3):
            await three[node_id].start(timing=BootstrapTiming(first_delay_ms=60_000, max_delay_ms=60_000))
        await asyncio.sleep(1)
        await three[1].start()
        for node_id in ALL:
            await three[node_id].result()
        assert asyncio.get_running_loop().time() < 3


@virtual
async def test_a_lost_offer_is_made_up_for_by_asking() -> None:
    async with world(1, 2) as three:
        await three[3].start()
        third = three[3].bootstrapping
        assert third is not None

        async def lose(offer: Offer) -> str | None:
            raise StreamError(Status.UNAVAILABLE, "lost")

        third._consider = lose  # type: ignore[method-assign]
        for node_id in ALL:
            await three[node_id].result()
        assert three[3].voters == three[1].voters
        assert len(three[3].voters) == 3


@virtual
async def test_a_repeated_offer_changes_nothing_and_another_one_is_refused() -> None:
    async with world(2, 3) as three:
        await asyncio.sleep(0.1)
        first = configuration(three[node_id].member for node_id in ALL)
        other = configuration([three[1].member, three[3].member])
        offers = [encode_offer(Offer(three[1].disk.content.identity, voters)) for voters in (first, first, other)]
        answers = await asyncio.gather(*(three.call(3, OFFER_METHOD, offer) for offer in offers))
        refusals = [decode_offer_answer(answer) for answer in answers]
        assert refusals.count(None) in (1, 2)
        accepted = three[3].voters
        assert accepted in (first.voters, other.voters)
        again = decode_offer_answer(await three.call(3, OFFER_METHOD, offers[0]))
        assert again is not None
        assert "decided already" in again
        assert three[3].voters == accepted
        assert (await three[3].result()).snapshot.configuration.voters == accepted


@virtual
async def test_an_offer_of_another_cluster_or_for_another_disk_is_refused() -> None:
    async with world(3) as three:
        await asyncio.sleep(0.1)
        own = three[3].member
        sender = three[1].disk.content.identity
        stranger = configuration([sender.member, Member(3, ELSEWHERE)])
        for offer in (
            Offer(replace(sender, cluster_id="other"), configuration([sender.member, own])),
            Offer(sender, stranger),
            Offer(sender, configuration([own])),
        ):
            assert decode_offer_answer(await three.call(3, OFFER_METHOD, encode_offer(offer)))
        assert three[3].voters == ()
        assert not three[3].is_decided


@virtual
async def test_an_offer_outlives_the_connection_it_came_by() -> None:
    async with world(3) as three:
        await asyncio.sleep(0.1)
        first = configuration(three[node_id].member for node_id in ALL)
        three[3].speed.work_s = lambda: 0.5  # type: ignore[method-assign]
        connection = await three.network.host("client").connect("n3:1")
        stream = connection.open(OFFER_METHOD)
        await stream.send(encode_offer(Offer(three[1].disk.content.identity, first)))
        third = three[3].bootstrapping
        assert third is not None
        while not third._writing.locked():  # noqa: ASYNC110 (there is no event for it)
            await asyncio.sleep(0.0001)
        stream.reset()
        await connection.close()
        assert (await three[3].result()).snapshot.configuration == first
        assert three[3].voters == first.voters


@virtual
async def test_a_node_tells_what_it_is_to_whoever_asks() -> None:
    async with world(1, 2, cluster_ids={2: "other"}) as three:
        await asyncio.sleep(0.1)
        probe = encode_probe(three[1].disk.content.identity)
        assert decode_answer(await three.call(1, PROBE_METHOD, probe)) == (
            three[1].member,
            Empty(CLUSTER, three[1].member.directory_id, ALL),
        )
        _, answer = decode_answer(await three.call(2, PROBE_METHOD, probe))
        assert isinstance(answer, Empty)
        assert answer.cluster_id == "other"
        assert three[1].reason is not None
        assert "2@n2:1 is of cluster other, not c" in three[1].reason


@virtual
async def test_a_learner_says_that_it_joins_until_it_knows_the_voters() -> None:
    async with world(1, 2, 3) as three:
        for node_id in ALL:
            await three[node_id].result()
        await restarted_as_learner(three, 3)
        probe = encode_probe(three[1].disk.content.identity)
        assert (await three.call(3, PROBE_METHOD, probe)) is not None
        assert decode_answer(await three.call(3, PROBE_METHOD, probe))[1] == Joining(CLUSTER)
        third = three[3].bootstrapping
        assert third is not None
        third.follow(lambda: Configuration())
        assert decode_answer(await three.call(3, PROBE_METHOD, probe))[1] == Joining(CLUSTER)
        third.follow(lambda: configuration([three[1].member]))
        answer = decode_answer(await three.call(3, PROBE_METHOD, probe))[1]
        assert answer == Initialised(CLUSTER, three[3].member.directory_id, None)


@virtual
async def test_a_node_is_known_by_what_it_answers_now() -> None:
    async with world(1, 2, 3, cluster_ids={3: "other"}) as three:
        first = three[1].bootstrapping
        assert first is not None
        assert await first.who_answers(2) == three[2].member
        assert await first.who_answers(3) is None  # of another cluster
        await three[2].crash()
        assert await first.who_answers(2) is None
        before = three[2].member
        three[2].disk.wipe()
        await three[2].start()
        assert before != await first.who_answers(2) == three[2].member


@virtual
async def test_an_address_where_another_node_answers_is_named_so() -> None:
    mixed = World()
    await mixed[2].start()
    runtime = make_runtime(1, mixed.network, "n1")
    store = mixed[1].disk.open(DiskSpeed(Rng(1)), Rng(1))
    controllers = {1: "n1:1", 2: "n2:1", 3: "n2:1"}
    bootstrapping = Bootstrapper(runtime, store, await store.load(), controllers)
    running = asyncio.ensure_future(bootstrapping.run())
    await asyncio.sleep(5)
    assert bootstrapping.waiting_reason is not None
    assert "3@n2:1 (node 2 answers there)" in bootstrapping.waiting_reason
    assert await bootstrapping.who_answers(3) is None
    running.cancel()
    await asyncio.wait([running])
    await mixed[2].crash()


@virtual
async def test_a_peer_that_hangs_is_named_and_does_not_hold_up_the_round() -> None:
    async with world(1, 2, 3) as three:
        for node_id in ALL:
            three.network.cut("n3", f"n{node_id}")
        await asyncio.sleep(10)
        assert three[1].reason is not None
        assert "3@n3:1 (no answer within 1000 ms)" in three[1].reason
        three.network.heal_all()
        for node_id in ALL:
            await three[node_id].result()


@pytest.mark.parametrize("method", [PROBE_METHOD, OFFER_METHOD])
@virtual
async def test_what_makes_no_sense_is_refused_and_does_not_stop_the_node(method: str) -> None:
    async with world(1) as three:
        await asyncio.sleep(0.1)
        for nonsense in (b"", b"\xff\xff\xff"):
            with pytest.raises(StreamError) as caught:
                await three.call(1, method, nonsense)
            assert caught.value.status is Status.INVALID_ARGUMENT
        assert not three[1].is_decided


@virtual
async def test_a_store_that_fails_ends_the_start_with_its_error() -> None:
    alone = World()
    await alone[1].start(controllers=(1,))
    assert alone[1].store is not None
    alone[1].store.fail("no space left")
    with pytest.raises(StoreFailed):
        await alone[1].result()
