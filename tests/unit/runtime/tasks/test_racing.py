"""Races: who loses is cancelled, and may fail while it is; that is no cancellation of who waits for the race."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from lograft.clients.cluster import unary_call as calling
from lograft.runtime.tasks import racing


class Lost(Exception):
    pass


async def win() -> None:
    await asyncio.sleep(0)


async def lose_badly() -> None:
    """As a stream does whose connection is lost just when nobody wants to hear of it any more."""
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        await asyncio.sleep(0)
        raise Lost from None


async def fail() -> None:
    await asyncio.sleep(0)
    raise Lost


def in_a_task(main: Callable[[], Coroutine[Any, Any, None]]) -> "asyncio.Task[None]":
    """As it ended."""

    async def run() -> asyncio.Task[None]:
        task = asyncio.ensure_future(main())
        await asyncio.wait([task])
        return task

    return asyncio.run(run())


@pytest.mark.parametrize("racers", [(win, lose_badly), (win, lose_badly, lose_badly), (fail, lose_badly), (fail, fail)])
def test_who_waited_for_a_race_that_failed_goes_on(racers: tuple[Callable[[], Coroutine[Any, Any, None]], ...]) -> None:
    async def main() -> None:
        for _ in range(3):
            with pytest.raises(BaseExceptionGroup):
                await racing.until_first(*(racer() for racer in racers))
            with pytest.raises(Lost):
                await calling.until_first(*(racer() for racer in racers))
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0

    in_a_task(main).result()


def test_a_cancellation_is_kept_though_racers_fail_at_the_same_time() -> None:
    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().call_soon(task.cancel)
        await calling.until_first(asyncio.Event().wait(), lose_badly(), fail())

    assert in_a_task(main).cancelled()


def test_all_have_ended_when_the_race_is_over() -> None:
    ended: list[str] = []

    async def end_slowly() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.001)
            ended.append("slowly")

    async def main() -> None:
        await racing.until_first(win(), end_slowly())
        assert ended == ["slowly"]

    in_a_task(main).result()
