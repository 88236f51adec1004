"""A cancellation is never lost, not even on one who swallows it."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from support.free_ports import free_address

from lograft.runtime.network import ConnectFailed
from lograft.runtime.production import grpc_network
from lograft.runtime.production.grpc_network import GrpcNetwork
from lograft.runtime.tasks.cancellation import keep_cancellation, until_first, until_first_ends

TRIES = 150


async def swallow(outcome: Exception | None) -> str:
    """As grpc.aio does: wait for a task of one's own, which takes the cancellation for its own end."""

    async def inner() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if outcome is not None:
                raise outcome from None

    await asyncio.ensure_future(inner())
    return "as if nothing had been"


@pytest.mark.parametrize("outcome", [None, ValueError("failed")])
def test_a_swallowed_cancellation_is_raised(outcome: Exception | None) -> None:
    async def main() -> None:
        task = asyncio.ensure_future(keep_cancellation(swallow(outcome)))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()

    asyncio.run(main())


def test_one_that_is_cleaning_up_after_a_cancellation_may_still_wait() -> None:
    async def clean_up() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return await keep_cancellation(asyncio.sleep(0, "cleaned"))
        raise AssertionError

    async def main() -> None:
        task = asyncio.ensure_future(clean_up())
        await asyncio.sleep(0)
        task.cancel()
        assert await task == "cleaned"

    asyncio.run(main())


def test_whenever_a_failing_connect_is_cancelled_it_ends_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was lost while the reason of the refusal was being asked for: a node that stopped just then never did."""
    address = free_address()
    ask_for_reason = grpc_network._failure_reason

    async def connect_and_cancel(steps: int) -> None:
        """`steps`: of the loop, since the reason was asked for."""
        asked = asyncio.Event()

        async def ask(channel: Any) -> str:
            asked.set()
            return await ask_for_reason(channel)

        monkeypatch.setattr(grpc_network, "_failure_reason", ask)
        task = asyncio.ensure_future(GrpcNetwork().connect(address, 1000))
        await asked.wait()
        for _ in range(steps):
            await asyncio.sleep(0)
        if task.cancel():
            await asyncio.wait([task])
            assert task.cancelled(), "the cancellation was lost"
        else:
            assert isinstance(task.exception(), ConnectFailed)

    async def main() -> None:
        for number in range(TRIES):
            await connect_and_cancel(number % 10)

    asyncio.run(main())


# -- races


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
def test_a_failed_race_leaves_no_cancellation_on_its_caller(
    racers: tuple[Callable[[], Coroutine[Any, Any, None]], ...],
) -> None:
    async def main() -> None:
        for _ in range(3):
            with pytest.raises(BaseExceptionGroup):
                await until_first(*(racer() for racer in racers))
            with pytest.raises(Lost):
                await until_first_ends(*(racer() for racer in racers))
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0

    in_a_task(main).result()


def test_a_cancellation_is_kept_though_racers_fail_at_the_same_time() -> None:
    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().call_soon(task.cancel)
        await until_first_ends(asyncio.Event().wait(), lose_badly(), fail())

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
        await until_first(win(), end_slowly())
        assert ended == ["slowly"]

    in_a_task(main).result()
