"""A cancellation is never lost, not even on one who swallows it."""

import asyncio
from typing import Any

import pytest
from support.free_ports import free_address

from lograft.runtime.network import ConnectFailed
from lograft.runtime.production import grpc_network
from lograft.runtime.production.grpc_network import GrpcNetwork
from lograft.runtime.tasks.cancellation import keep_cancellation

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
