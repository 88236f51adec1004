"""What workers and blocking calls do beside the loop: threads and their simulated twins pass the same tests."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from lograft.chaos.world.crash import SimulatedCrash
from lograft.chaos.world.loop import run_virtual
from lograft.chaos.world.workers import DiskSpeed, VirtualBlocking, VirtualWorkers
from lograft.runtime.blocking import Blocking, WorkerFactory
from lograft.runtime.production.threads import ThreadBlocking, ThreadWorkers
from lograft.runtime.rng import Rng


class World:
    """Makes workers, and runs a test's coroutine on the loop they belong to."""

    def __init__(self, run: Callable[[Coroutine[Any, Any, None]], None]) -> None:
        self.run = run
        self.panics: list[BaseException] = []

    def workers(self) -> WorkerFactory:
        raise NotImplementedError

    def blocking(self) -> Blocking:
        raise NotImplementedError


class ThreadWorld(World):
    def __init__(self) -> None:
        super().__init__(asyncio.run)

    def workers(self) -> WorkerFactory:
        return ThreadWorkers(self.panics.append)

    def blocking(self) -> Blocking:
        return ThreadBlocking(2)


class VirtualWorld(World):
    def __init__(self) -> None:
        super().__init__(run_virtual)
        self.speed = DiskSpeed(Rng(7))

    def workers(self) -> WorkerFactory:
        return VirtualWorkers(Rng(7), self.speed)

    def blocking(self) -> Blocking:
        return VirtualBlocking(self.speed)


@pytest.fixture(params=[ThreadWorld, VirtualWorld], ids=["threads", "virtual"])
def side(request: pytest.FixtureRequest) -> World:
    made: World = request.param()
    return made


def test_operations_are_performed_and_completed_in_the_order_submitted(side: World) -> None:
    performed: list[int] = []
    completed: list[int] = []

    def perform(operations: list[int]) -> list[int]:
        performed.extend(operations)
        return operations

    async def main() -> None:
        worker = side.workers()("ordered", perform, completed.extend)
        for number in range(2000):
            worker.submit(number)
            if number % 100 == 0:
                await asyncio.sleep(0)
        await worker.close()
        assert performed == completed == list(range(2000))

    side.run(main())


def test_what_waits_while_a_round_runs_is_performed_together(side: World) -> None:
    rounds: list[list[int]] = []
    gate = threading.Event()

    def perform(operations: list[int]) -> None:
        rounds.append(operations)
        if gate_matters:
            gate.wait(10)

    gate_matters = isinstance(side, ThreadWorld)

    async def main() -> None:
        worker = side.workers()("batching", perform, lambda _: None)
        for number in range(500):
            worker.submit(number)
        gate.set()
        await worker.close()
        assert [number for numbers in rounds for number in numbers] == list(range(500))
        assert len(rounds) < 100

    side.run(main())


def test_completed_runs_on_the_loop(side: World) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        seen: asyncio.Future[tuple[object, int]] = loop.create_future()

        def completed(result: str) -> None:
            seen.set_result((asyncio.get_running_loop(), threading.get_ident()))

        worker = side.workers()("loop", lambda operations: "done", completed)
        worker.submit(1)
        assert await seen == (loop, threading.get_ident())
        await worker.close()

    side.run(main())


def test_submit_returns_before_the_operation_is_performed(side: World) -> None:
    async def main() -> None:
        told: list[object] = []
        worker = side.workers()("later", lambda operations: operations, told.append)
        worker.submit("x")
        assert told == []
        await worker.close()
        assert told == [["x"]]

    side.run(main())


def test_close_waits_for_all_and_may_be_called_twice(side: World) -> None:
    async def main() -> None:
        told: list[int] = []
        worker = side.workers()("closing", lambda operations: operations, told.extend)
        for number in range(50):
            worker.submit(number)
        await asyncio.gather(worker.close(), worker.close())
        assert told == list(range(50))
        await worker.close()
        with pytest.raises(AssertionError):
            worker.submit(51)

    side.run(main())


def test_a_worker_that_was_never_used_closes(side: World) -> None:
    async def main() -> None:
        await side.workers()("unused", lambda operations: None, lambda _: None).close()

    side.run(main())


def test_run_blocking_gives_the_result_or_raises_the_error(side: World) -> None:
    async def main() -> None:
        blocking = side.blocking()
        assert await blocking.run_blocking(divmod, 17, 5) == (3, 2)
        with pytest.raises(ZeroDivisionError):
            await blocking.run_blocking(divmod, 1, 0)
        results = await asyncio.gather(*(blocking.run_blocking(pow, number, 2) for number in range(30)))
        assert results == [number**2 for number in range(30)]
        await blocking.close()

    side.run(main())


def test_closed_blocking_refuses_new_work_after_finishing_the_old(side: World) -> None:
    async def main() -> None:
        blocking = side.blocking()
        finished: list[int] = []
        async with asyncio.TaskGroup() as tasks:
            for number in range(10):
                tasks.create_task(blocking.run_blocking(finished.append, number))
            await asyncio.sleep(0)
            await blocking.close()
            assert sorted(finished) == list(range(10))
        with pytest.raises(RuntimeError):
            await blocking.run_blocking(finished.append, 99)

    side.run(main())


def test_a_running_function_goes_on_when_its_caller_is_cancelled(side: World) -> None:
    async def main() -> None:
        blocking = side.blocking()
        loop = asyncio.get_running_loop()
        started, gate = asyncio.Event(), threading.Event()
        finished: list[bool] = []

        def function() -> None:
            loop.call_soon_threadsafe(started.set)
            if isinstance(side, ThreadWorld):
                gate.wait(10)
            finished.append(True)

        task = asyncio.ensure_future(blocking.run_blocking(function))
        if isinstance(side, ThreadWorld):
            await started.wait()
        else:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        gate.set()
        await blocking.close()
        assert finished == [True]

    side.run(main())


# -- threads alone


@pytest.mark.parametrize("failing", ["perform", "completed"])
def test_an_exception_in_a_thread_worker_is_a_panic_and_ends_its_work(failing: str) -> None:
    async def main() -> None:
        panicked = asyncio.Event()
        panics: list[BaseException] = []
        performed: list[int] = []
        told: list[object] = []

        def on_panic(error: BaseException) -> None:
            assert asyncio.get_running_loop()
            panics.append(error)
            panicked.set()

        def perform(operations: list[int]) -> list[int]:
            performed.extend(operations)
            if failing == "perform":
                raise ValueError("broken invariant")
            return operations

        def completed(result: object) -> None:
            told.append(result)
            if failing == "completed":
                raise ValueError("broken invariant")

        worker = ThreadWorkers(on_panic)("doomed", perform, completed)
        worker.submit(1)
        await panicked.wait()
        worker.submit(2)
        await worker.close()
        assert [str(error) for error in panics] == ["broken invariant"]
        assert performed == [1]
        assert told == ([[1]] if failing == "completed" else [])

    asyncio.run(main())


def test_closing_the_factory_closes_its_workers_and_leaves_no_thread() -> None:
    async def main() -> None:
        workers = ThreadWorkers(lambda error: None)
        told: list[int] = []
        worker = workers("left open", lambda operations: operations, told.extend)
        worker.submit(1)
        await workers.close()
        assert told == [1]

    before = threading.active_count()
    asyncio.run(main())
    assert threading.active_count() == before


# -- simulation alone


def test_nothing_of_a_killed_node_runs() -> None:
    async def main() -> None:
        speed = DiskSpeed(Rng(1))
        workers, blocking = VirtualWorkers(Rng(1), speed), VirtualBlocking(speed)
        ran: list[object] = []
        worker = workers("doomed", lambda operations: ran.append(operations), ran.append)
        worker.submit(1)
        task = asyncio.ensure_future(blocking.run_blocking(ran.append, "blocking"))
        await asyncio.sleep(0)
        workers.kill()
        blocking.kill()
        await asyncio.sleep(60)
        assert ran == []
        assert not task.done()
        task.cancel()
        with pytest.raises(SimulatedCrash):
            worker.submit(2)
        with pytest.raises(SimulatedCrash):
            await worker.close()
        with pytest.raises(SimulatedCrash):
            await blocking.run_blocking(ran.append, 1)

    run_virtual(main())


@pytest.mark.parametrize("seed", range(20))
def test_a_kill_between_performing_and_telling_tells_no_one(seed: int) -> None:
    async def main() -> None:
        workers = VirtualWorkers(Rng(seed), DiskSpeed(Rng(seed)))
        told: list[int] = []

        def perform(operations: list[int]) -> list[int]:
            asyncio.get_running_loop().call_soon(workers.kill)
            return operations

        workers("doomed", perform, told.extend).submit(1)
        await asyncio.sleep(60)
        assert told == []

    run_virtual(main())


def test_a_slow_disk_takes_longer_in_virtual_time() -> None:
    async def duration(slowdown: float) -> float:
        loop = asyncio.get_running_loop()
        started = loop.time()
        worker = VirtualWorkers(Rng(3), DiskSpeed(Rng(3), slowdown))("slow", lambda operations: None, lambda _: None)
        worker.submit(1)
        await worker.close()
        return loop.time() - started

    assert run_virtual(duration(1000)) > 50 * run_virtual(duration(1))


def test_a_crash_while_performing_reaches_the_loops_exception_handler_as_it_is() -> None:
    crash = SimulatedCrash("in the middle of a write")
    seen: list[object] = []

    async def main() -> None:
        crashed = asyncio.Event()

        def on_exception(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            seen.append(context.get("exception"))
            crashed.set()

        asyncio.get_running_loop().set_exception_handler(on_exception)
        worker = VirtualWorkers(Rng(1), DiskSpeed(Rng(1)))("doomed", fail, lambda _: None)
        worker.submit(1)
        await asyncio.wait_for(crashed.wait(), 10)
        with pytest.raises(SimulatedCrash):
            worker.submit(2)

    def fail(operations: list[int]) -> None:
        raise crash

    # The ordinary loop: what its handler gets is what any loop's handler gets.
    asyncio.run(main())
    assert seen == [crash]
