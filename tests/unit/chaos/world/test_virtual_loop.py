import asyncio
import gc
import subprocess
import sys
import time
import weakref
from collections.abc import AsyncGenerator

import pytest

from lograft.chaos.world.crash import SimulatedCrash
from lograft.chaos.world.loop import (
    SimulationDeadlock,
    SimulationError,
    SimulationOverrun,
    VirtualClock,
    VirtualLoop,
    run_virtual,
)


def test_an_hour_of_sleep_takes_no_time() -> None:
    async def main() -> float:
        await asyncio.sleep(3600)
        return asyncio.get_running_loop().time()

    began = time.monotonic()
    assert run_virtual(main, start_time=100.0) == 3700.0
    assert time.monotonic() - began < 1800


def test_callbacks_due_together_run_in_the_order_they_were_scheduled() -> None:
    async def main() -> list[int]:
        loop = asyncio.get_running_loop()
        order: list[int] = []
        for number in range(50):
            loop.call_at(5.0, order.append, number)
        loop.call_at(4.0, order.append, -1)
        loop.call_later(0, order.append, -2)
        await asyncio.sleep(6)
        return order

    assert run_virtual(main) == [-2, -1, *range(50)]


def test_a_cancelled_timer_does_not_run_and_time_does_not_stop_at_it() -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        ran: list[str] = []
        loop.call_later(5, ran.append, "cancelled").cancel()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(10):
                await asyncio.Event().wait()
        assert ran == []
        return loop.time()

    assert run_virtual(main) == 10.0


def test_a_deadlock_names_the_waiting_tasks() -> None:
    async def wait_for_ever() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(wait_for_ever(), name="follower 2")

    with pytest.raises(SimulationDeadlock, match=r"follower 2 .*wait_for_ever at .*test_virtual_loop\.py"):
        run_virtual(main)


def test_too_many_steps_end_the_run() -> None:
    async def main() -> None:
        for _ in range(1000):
            await asyncio.sleep(1)

    with pytest.raises(SimulationOverrun, match="not done after 100 steps"):
        run_virtual(main, max_steps=100)


def test_too_much_virtual_time_ends_the_run() -> None:
    async def main() -> None:
        for _ in range(1000):
            await asyncio.sleep(1)

    with pytest.raises(SimulationOverrun, match=r"not done at 15\.000 s"):
        run_virtual(main, start_time=5, max_virtual_seconds=10)


def test_a_task_that_spins_is_found_out() -> None:
    async def main() -> None:
        waiting = True
        asyncio.get_running_loop().call_later(1, lambda: None)
        while waiting:  # noqa: ASYNC110 (that is the mistake)
            await asyncio.sleep(0)

    with pytest.raises(SimulationOverrun, match="something spins"):
        run_virtual(main)


def test_an_exception_in_a_callback_ends_the_run() -> None:
    def fail() -> None:
        raise ValueError("in a callback")

    async def main() -> None:
        asyncio.get_running_loop().call_later(1, fail)
        await asyncio.sleep(3600)

    with pytest.raises(ValueError, match="in a callback"):
        run_virtual(main)


@pytest.mark.parametrize("keeps_task", [True, False])
def test_an_exception_of_a_task_nobody_awaits_ends_the_run(keeps_task: bool) -> None:
    kept: list[asyncio.Task[None]] = []

    async def fail() -> None:
        raise ValueError("in a task")

    async def main() -> None:
        task = asyncio.get_running_loop().create_task(fail())
        if keeps_task:
            kept.append(task)
            asyncio.get_running_loop().call_later(1, kept.clear)
        del task
        await asyncio.sleep(2)

    with pytest.raises(ValueError, match="in a task"):
        run_virtual(main)


def test_an_exception_held_in_a_reference_cycle_is_found_at_the_end() -> None:
    class Holder:
        task: "asyncio.Task[None]"
        me: "Holder"

    async def fail() -> None:
        raise ValueError("in a cycle")

    async def main() -> None:
        holder = Holder()
        holder.me = holder
        holder.task = asyncio.get_running_loop().create_task(fail())
        await asyncio.sleep(1)

    with pytest.raises(ValueError, match="in a cycle"):
        run_virtual(main)


def test_several_failures_are_raised_together() -> None:
    async def linger(number: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError(number)

    async def main() -> None:
        for number in range(2):
            asyncio.get_running_loop().create_task(linger(number))
        await asyncio.sleep(1)

    with pytest.raises(ExceptionGroup) as caught:
        run_virtual(main)
    assert [error.args for error in caught.value.exceptions] == [(0,), (1,)]


def test_a_simulated_crash_is_no_failure_of_the_run() -> None:
    def crash() -> None:
        raise SimulatedCrash

    async def crash_in_group() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(crash_in_task())

    async def crash_in_task() -> None:
        raise SimulatedCrash

    async def main() -> str:
        loop = asyncio.get_running_loop()
        loop.call_soon(crash)
        loop.create_task(crash_in_task())  # noqa: RUF006 (nobody owns a crashed task)
        loop.create_task(crash_in_group())  # noqa: RUF006
        await asyncio.sleep(1)
        return "survived"

    assert run_virtual(main) == "survived"


def test_leftover_tasks_are_cancelled_oldest_first_and_generators_closed() -> None:
    ended: list[str] = []

    async def linger(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(1)
            ended.append(name)

    async def numbers() -> AsyncGenerator[int, None]:
        try:
            yield 1
            yield 2
        finally:
            await asyncio.sleep(1)
            ended.append("generator")

    generator = numbers()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        for name in "abcdefgh":
            loop.create_task(linger(name))  # noqa: RUF006 (left behind on purpose)
        assert await anext(generator) == 1
        await asyncio.sleep(0)

    run_virtual(main)
    assert ended == [*"abcdefgh", "generator"]


def test_a_leftover_that_fails_when_cancelled_fails_the_run() -> None:
    async def linger() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("in cleaning up")

    async def main() -> None:
        asyncio.get_running_loop().create_task(linger())
        await asyncio.sleep(0)

    with pytest.raises(ValueError, match="in cleaning up"):
        run_virtual(main)


def test_threads_are_refused() -> None:
    async def main() -> None:
        await asyncio.to_thread(print)

    with pytest.raises(RuntimeError, match="no threads in a simulation"):
        run_virtual(main)


def test_a_closed_loop_takes_nothing_more() -> None:
    loop = VirtualLoop()
    loop.close()
    with pytest.raises(RuntimeError, match="closed"):
        loop.call_soon(print)


def test_the_garbage_collector_is_left_as_it_was() -> None:
    class Cyclic:
        pass

    async def main() -> "weakref.ref[Cyclic]":
        assert not gc.isenabled()
        cyclic = Cyclic()
        cyclic.__dict__["me"] = cyclic
        return weakref.ref(cyclic)

    assert gc.isenabled()
    assert run_virtual(main)() is None
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


def test_a_task_destroyed_while_pending_fails_the_run() -> None:
    async def wait() -> None:
        await asyncio.get_running_loop().create_future()

    loop = VirtualLoop()
    task = loop.create_task(wait())
    loop.call_later(1, loop.stop)
    loop.run_forever()
    loop._tasks.clear()
    del task
    gc.collect()
    with pytest.raises(SimulationError, match="destroyed but it is pending"):
        loop.raise_collected()
    loop.close()


@pytest.mark.parametrize("rate", [0.5, 1.0, 1.25, 3.0])
def test_a_clock_runs_at_its_own_rate(rate: float) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        clock = VirtualClock(loop, rate=rate, wall_offset_ms=-500)
        wall_ms = clock.wall_ms()
        for number in range(1, 1001):
            await clock.sleep_ms(5)
            assert clock.monotonic_ms() == number * 5
        assert loop.time() == pytest.approx(5.0 / rate)
        assert clock.wall_ms() == wall_ms + 5000
        assert VirtualClock(loop, rate=rate).wall_ms() == clock.wall_ms() + 500

    run_virtual(main)


def test_a_clock_that_changes_its_rate_never_jumps() -> None:
    async def main() -> None:
        clock = VirtualClock(asyncio.get_running_loop())
        await asyncio.sleep(1)
        clock.set_rate(2.0)
        assert clock.monotonic_ms() == 1000
        await asyncio.sleep(1)
        assert clock.monotonic_ms() == 3000

    run_virtual(main)


TRACE = """
import asyncio, sys
from lograft.chaos.world.loop import run_virtual
from lograft.chaos.world.network import VirtualNetwork
from lograft.runtime.network import StreamError
from lograft.runtime.rng import Rng

async def main():
    loop, rng = asyncio.get_running_loop(), Rng(int(sys.argv[1]))
    network = VirtualNetwork(rng.fork())
    say = lambda *words: print(f"{loop.time():.9f}", *words)
    async def echo(stream):
        while (message := await stream.receive()) is not None:
            say("server", message)
            await stream.send(message)
    await network.host("server").serve("server:1", {"/echo": echo}, say)
    async def talk(name):
        try:
            connection = await network.host(name).connect("server:1")
            stream = connection.open("/echo")
            for number in range(5):
                await stream.send(f"{name}{number}".encode())
                say(name, await stream.receive())
                await asyncio.sleep(rng.random() / 1000)
        except (StreamError, asyncio.CancelledError) as error:
            say(name, type(error).__name__)
            raise
    async def fail():
        await asyncio.sleep(0.004)
        raise ValueError
    try:
        async with asyncio.TaskGroup() as group:  # cancels what is left in the order of a set
            for name in ("ann", "bob", "cid", "dora", "eve", "fay", "gus"):
                group.create_task(talk(name))
            group.create_task(fail())
    except ExceptionGroup:
        pass
    tasks = {loop.create_task(asyncio.sleep(1)) for _ in range(9)}
    say([task.get_name() for task in tasks])
    done, _ = await asyncio.wait(tasks)
    say([task.get_name() for task in done])
run_virtual(main)
"""


def test_a_run_follows_from_its_seed_whatever_the_hash_seed() -> None:
    def trace(seed: int, hash_seed: int) -> str:
        command = [sys.executable, "-c", TRACE, str(seed)]
        environment = {"PYTHONHASHSEED": str(hash_seed)}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    first = trace(1, 1)
    assert first.count("CancelledError") > 1
    assert trace(1, 2) == first
    assert trace(1, 3) == first
    assert trace(2, 1) != first
