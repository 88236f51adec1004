import asyncio
from collections.abc import Callable

import pytest

from lograft.chaos.world.crash import SimulatedCrash
from lograft.chaos.world.link import Delays
from lograft.chaos.world.loop import run_virtual
from lograft.chaos.world.network import VirtualNetwork
from lograft.runtime.network import ConnectFailed, Connection, Status, Stream, StreamError
from lograft.runtime.rng import Rng

METHOD = "/lograft.test.Network/Method"


def never(panic: BaseException) -> None:
    raise AssertionError from panic


async def echo(stream: Stream) -> None:
    while (message := await stream.receive()) is not None:
        await stream.send(message)


async def connected(network: VirtualNetwork, client: str = "a", server: str = "b") -> Connection:
    await network.host(server).serve(f"{server}:1", {METHOD: echo}, never)
    return await network.host(client).connect(f"{server}:1")


async def finishes_within(awaitable: "asyncio.Future[bytes | None]", seconds: float) -> bool:
    done, _ = await asyncio.wait([awaitable], timeout=seconds)
    return bool(done)


def test_a_cut_holds_messages_back_one_way_and_heals_without_loss() -> None:
    async def main() -> None:
        network = VirtualNetwork(Rng(1))
        connection = await connected(network)
        stream = connection.open(METHOD)
        await stream.send(b"0")
        assert await stream.receive() == b"0"
        network.cut("b", "a")
        for number in range(1, 4):
            await stream.send(str(number).encode())
        receiving = asyncio.ensure_future(stream.receive())
        assert not await finishes_within(receiving, 30)
        assert not connection.broken.is_set()
        network.heal("b", "a")
        assert await receiving == b"1"
        assert [await stream.receive(), await stream.receive()] == [b"2", b"3"]

    run_virtual(main)


def test_a_one_way_cut_lets_the_other_way_pass() -> None:
    arrived: list[bytes | None] = []

    async def note(stream: Stream) -> None:
        arrived.append(await stream.receive())

    async def main() -> None:
        network = VirtualNetwork(Rng(1))
        await network.host("b").serve("b:1", {METHOD: note}, never)
        stream = (await network.host("a").connect("b:1")).open(METHOD)
        network.cut("b", "a")
        await stream.send(b"x")
        await asyncio.sleep(1)
        assert arrived == [b"x"]

    run_virtual(main)


@pytest.mark.parametrize("cut", [("a", "b"), ("b", "a")])
def test_connecting_across_a_cut_times_out_and_works_again_when_healed(cut: tuple[str, str]) -> None:
    async def main() -> None:
        network = VirtualNetwork(Rng(1))
        await network.host("b").serve("b:1", {METHOD: echo}, never)
        network.cut(*cut)
        loop = asyncio.get_running_loop()
        began = loop.time()
        with pytest.raises(ConnectFailed, match="no answer within 700 ms"):
            await network.host("a").connect("b:1", timeout_ms=700)
        assert loop.time() - began == pytest.approx(0.7)
        connecting = asyncio.ensure_future(network.host("a").connect("b:1", timeout_ms=700))
        await asyncio.sleep(0.5)
        network.heal_all()
        stream = (await connecting).open(METHOD)
        await stream.send(b"x")
        assert await stream.receive() == b"x"

    run_virtual(main)


def test_a_host_that_is_not_there_refuses_at_once() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        with pytest.raises(ConnectFailed, match="refused"):
            await VirtualNetwork(Rng(1)).host("a").connect("nowhere:1")
        assert loop.time() < 0.2

    run_virtual(main)


def test_broken_connections_are_noticed_by_both_ends_and_others_live_on() -> None:
    ended: list[str] = []

    async def wait(stream: Stream) -> None:
        try:
            await stream.receive()
        except asyncio.CancelledError:
            ended.append(stream.peer)
            raise

    async def main() -> None:
        network = VirtualNetwork(Rng(1))
        await network.host("b").serve("b:1", {METHOD: wait}, never)
        broken, other = await network.host("a").connect("b:1"), await network.host("c").connect("b:1")
        streams = [broken.open(METHOD), other.open(METHOD)]
        await asyncio.sleep(1)
        network.break_connections("b", "a")
        await broken.broken.wait()
        with pytest.raises(StreamError) as caught:
            await streams[0].receive()
        assert caught.value.status is Status.UNAVAILABLE
        await asyncio.sleep(1)
        assert ended == ["a"]
        assert not other.broken.is_set()
        again = await network.host("a").connect("b:1")
        assert not again.broken.is_set()

    run_virtual(main)


def test_a_crashed_host_is_unwound_and_its_peers_notice() -> None:
    unwound: list[str] = []

    async def serve(stream: Stream) -> None:
        try:
            await stream.receive()
        except asyncio.CancelledError:
            unwound.append("handler")
            raise

    async def use(name: str, action: Callable[[], "asyncio.Future[object]"]) -> None:
        try:
            await action()
        except SimulatedCrash:
            unwound.append(name)
            raise

    async def main() -> None:
        network = VirtualNetwork(Rng(1))
        await network.host("a").serve("a:1", {METHOD: echo}, never)
        doomed = network.host("b")
        await doomed.serve("b:1", {METHOD: serve}, never)
        inward = await network.host("a").connect("b:1")
        stream = inward.open(METHOD)
        outward = await doomed.connect("a:1")
        own = outward.open(METHOD)
        loop = asyncio.get_running_loop()
        zombies = [loop.create_task(use("receive", lambda: asyncio.ensure_future(own.receive())))]
        await asyncio.sleep(1)
        network.crash("b")
        network.crash("b")
        zombies.append(loop.create_task(use("connect", lambda: asyncio.ensure_future(doomed.connect("a:1")))))
        zombies.append(loop.create_task(use("open", lambda: asyncio.ensure_future(outward.open(METHOD).receive()))))
        await inward.broken.wait()
        assert loop.time() < 2
        with pytest.raises(StreamError) as caught:
            await stream.receive()
        assert caught.value.status is Status.UNAVAILABLE
        await asyncio.wait(zombies)
        assert sorted(unwound) == ["connect", "handler", "open", "receive"]
        with pytest.raises(ConnectFailed, match="refused"):
            await network.host("a").connect("b:1")
        await network.host("b").serve("b:1", {METHOD: echo}, never)
        await network.host("a").connect("b:1")

    run_virtual(main)


def test_a_cut_hides_a_crash_until_it_is_healed() -> None:
    async def main() -> None:
        network = VirtualNetwork(Rng(1))
        connection = await connected(network)
        network.cut("b", "a")
        network.crash("b")
        await asyncio.sleep(60)
        assert not connection.broken.is_set()
        network.heal("b", "a")
        await connection.broken.wait()
        assert asyncio.get_running_loop().time() < 61.5

    run_virtual(main)


def test_what_was_sent_before_a_crash_may_still_arrive_and_in_order() -> None:
    received: list[bytes | None] = []

    async def note(stream: Stream) -> None:
        while True:
            received.append(await stream.receive())

    async def main() -> None:
        network = VirtualNetwork(Rng(1))
        await network.host("b").serve("b:1", {METHOD: note}, never)
        stream = (await network.host("a").connect("b:1")).open(METHOD)
        for number in range(20):
            await stream.send(str(number).encode())
        network.crash("a")
        await asyncio.sleep(1)
        assert received == [str(number).encode() for number in range(20)][: len(received)]

    run_virtual(main)
    assert received


def test_delays_follow_the_link() -> None:
    async def main() -> None:
        network = VirtualNetwork(Rng(1), delays=Delays(1, 1, 0))
        stream = (await connected(network)).open(METHOD)
        loop = asyncio.get_running_loop()
        for one_way_ms in (1, 250):
            network.set_delays("a", "b", Delays(one_way_ms, one_way_ms, 0))
            began = loop.time()
            await stream.send(b"x")
            await stream.receive()
            assert loop.time() - began == pytest.approx((one_way_ms + 1) / 1000)

    run_virtual(main)


def test_the_window_bounds_what_is_on_its_way() -> None:
    async def idle(stream: Stream) -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        network = VirtualNetwork(Rng(1), window_bytes=10_000)
        await network.host("b").serve("b:1", {METHOD: idle}, never)
        stream = (await network.host("a").connect("b:1")).open(METHOD)
        sent = 0

        async def pour() -> None:
            nonlocal sent
            for _ in range(100):
                await stream.send(bytes(1000))
                sent += 1

        pouring = asyncio.ensure_future(pour())
        await asyncio.sleep(60)
        assert not pouring.done()
        assert 9 <= sent <= 11

    run_virtual(main)


def test_the_same_seed_gives_the_same_run() -> None:
    async def times(seed: int) -> list[float]:
        network = VirtualNetwork(Rng(seed))
        stream = (await connected(network)).open(METHOD)
        loop = asyncio.get_running_loop()
        moments = []
        for _ in range(50):
            await stream.send(b"x")
            await stream.receive()
            moments.append(loop.time())
        return moments

    assert run_virtual(lambda: times(1)) == run_virtual(lambda: times(1))
    assert run_virtual(lambda: times(1)) != run_virtual(lambda: times(2))


def test_a_host_that_loses_its_power_says_nothing_and_answers_nobody() -> None:
    async def main() -> None:
        network = VirtualNetwork(Rng(1))
        connection = await connected(network)
        stream = connection.open(METHOD)
        await stream.send(b"0")
        assert await stream.receive() == b"0"
        network.vanish("b")
        await stream.send(b"1")
        receiving = asyncio.ensure_future(stream.receive())
        assert not await finishes_within(receiving, 60)
        assert not connection.broken.is_set()
        with pytest.raises(ConnectFailed, match="no answer"):
            await network.host("a").connect("b:1", timeout_ms=2000)
        await network.host("b").serve("b:1", {METHOD: echo}, never)  # it is back, and knows nothing
        assert await finishes_within(receiving, 5)
        with pytest.raises(StreamError) as lost:
            receiving.result()
        assert lost.value.status is Status.UNAVAILABLE
        await network.host("a").connect("b:1")

    run_virtual(main)
