"""What ordinary functions have done on a loop of another thread."""

import asyncio
import gc
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from queue import SimpleQueue

import pytest

from lograft.runtime.tasks.loop_thread import LoopThread, shared_loop


class Megabytes:
    """Stands for what was received."""


class Broken(Exception):
    pass


async def receive() -> Megabytes:
    return Megabytes()


def run(loop: LoopThread) -> Megabytes:
    return loop.run(receive)


def run_serving(loop: LoopThread) -> Megabytes:
    return loop.run_serving(SimpleQueue(), receive)


def begin(loop: LoopThread) -> Megabytes:
    return loop.begin(receive).result(10)


@pytest.fixture
def no_collection() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collection")
@pytest.mark.parametrize("ask", [run, run_serving, begin])
def test_what_came_of_it_is_let_go_of_as_soon_as_nobody_has_it(ask: Callable[[LoopThread], Megabytes]) -> None:
    """Not when garbage is collected: who reads a stream would have a hundred of its messages in memory."""
    loop = shared_loop()
    received = ask(loop)
    gone = weakref.ref(received)
    loop.run(receive)  # the loop has forgotten the task
    del received
    assert gone() is None


def test_who_cancels_what_was_begun_cancels_the_coroutine() -> None:
    loop = shared_loop()
    told: Future[str] = Future()

    async def wait_for_ever() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            told.set_result("cancelled")
            raise

    waiting = loop.begin(wait_for_ever)
    loop.run(receive)
    assert waiting.cancel()
    assert told.result(10) == "cancelled"


def test_what_is_cancelled_before_it_begins_never_does() -> None:
    loop = shared_loop()
    begun: list[bool] = []

    async def note() -> None:
        begun.append(True)

    async def cancel_the_next() -> None:
        # The loop is busy here, so that what is asked of it now cannot begin.
        waiting.put(None)
        cancelled.get()

    waiting: SimpleQueue[None] = SimpleQueue()
    cancelled: SimpleQueue[None] = SimpleQueue()
    busy = loop.begin(cancel_the_next)
    waiting.get()
    assert loop.begin(note).cancel()
    cancelled.put(None)
    busy.result(10)
    loop.run(receive)
    assert begun == []


def test_an_error_is_raised_where_one_waits() -> None:
    async def fail() -> None:
        raise Broken

    def fail_at_once() -> object:
        raise Broken

    loop = shared_loop()
    for failing in (fail, fail_at_once):
        with pytest.raises(Broken):
            loop.run(failing)  # type: ignore[arg-type]
        with pytest.raises(Broken):
            loop.begin(failing).result(10)  # type: ignore[arg-type]
