"""How long nothing is acknowledged after a leader was killed: the same load and the same arithmetic for everybody."""

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable
from time import perf_counter, sleep

from compare.failures import Wrong
from compare.pacing import (
    LOAD_BEFORE_KILL_SECONDS,
    LONGEST_PAUSE_SECONDS,
    SEND_EVERY_SECONDS,
    is_over,
    longest_pause,
)

Send = Callable[[Callable[[float], None]], None]
"""Sends one record, without waiting for it, and has the function called with the time of its acknowledgement."""


def measure_pause(send: Send, kill: Callable[[], None], also: Callable[[], object] = lambda: None) -> float:
    """`also` is called after each record, for clients that want to be polled."""
    acknowledged: list[float] = []
    killed_at, began_at = 0.0, perf_counter()
    while True:
        send(acknowledged.append)
        also()
        now = perf_counter()
        if not killed_at and _is_time(acknowledged, began_at, now):
            killed_at = perf_counter()
            threading.Thread(target=kill).start()
        elif killed_at and is_over(list(acknowledged), killed_at, now):
            break
        sleep(SEND_EVERY_SECONDS)
    return _judged(list(acknowledged), killed_at)


def _is_time(acknowledged: list[float], began_at: float, now: float) -> bool:
    """To kill: the load has run for a while since the first acknowledgement."""
    if not acknowledged and now - began_at > LONGEST_PAUSE_SECONDS:
        raise Wrong(f"nothing was acknowledged in {LONGEST_PAUSE_SECONDS:.0f} s, and nobody was killed yet")
    return bool(acknowledged) and now - acknowledged[0] > LOAD_BEFORE_KILL_SECONDS


def _judged(acknowledged: list[float], killed_at: float) -> float:
    if perf_counter() - killed_at > LONGEST_PAUSE_SECONDS:
        raise Wrong(f"still nothing steady {LONGEST_PAUSE_SECONDS:.0f} s after the kill")
    return longest_pause(acknowledged, killed_at)


async def measure_pause_awaiting(send: Callable[[], Awaitable[None]], kill: Callable[[], None]) -> float:
    """The same for clients of asyncio, of which each attempt may fail: `send` returns when it is acknowledged."""
    acknowledged: list[float] = []

    async def attempt() -> None:
        with contextlib.suppress(Exception):  # not acknowledged is all that counts
            await send()
            acknowledged.append(perf_counter())

    killed_at, began_at = 0.0, perf_counter()
    attempts: set[asyncio.Task[None]] = set()
    while True:
        task = asyncio.create_task(attempt())
        attempts.add(task)
        task.add_done_callback(attempts.discard)
        now = perf_counter()
        if not killed_at and _is_time(acknowledged, began_at, now):
            killed_at = perf_counter()
            threading.Thread(target=kill).start()
        elif killed_at and is_over(acknowledged, killed_at, now):
            break
        await asyncio.sleep(SEND_EVERY_SECONDS)
    for task in attempts:
        task.cancel()
    await asyncio.gather(*attempts, return_exceptions=True)
    return _judged(acknowledged, killed_at)
