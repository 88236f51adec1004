"""Records sent by the clock, whatever becomes of those before: a system that stalls has all of them wait."""

import asyncio
import struct
from collections.abc import Iterator
from itertools import pairwise
from time import perf_counter, sleep

SEND_EVERY_SECONDS = 0.005
"""While leaders are killed."""

LOAD_BEFORE_KILL_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
CALM_SECONDS = 1.0
"""After that long with acknowledgements again, a failover is over."""

_DUE = struct.Struct("<d")


def due_times(rate: float, seconds: float) -> Iterator[float]:
    """Each when it is due, or as soon as whoever asks comes back."""
    started = perf_counter()
    for number in range(int(rate * seconds)):
        due = started + number / rate
        wait = due - perf_counter()
        if wait > 0:
            sleep(wait)
        yield due


def stamped(due: float, size_bytes: int) -> bytes:
    return _DUE.pack(due) + bytes(size_bytes - _DUE.size)


def age_seconds(value: bytes) -> float:
    return perf_counter() - _DUE.unpack_from(value)[0]  # type: ignore[no-any-return]


def longest_pause(acknowledged: list[float], killed_at: float) -> float:
    """The longest time from one acknowledgement to the next that the kill lies in or before."""
    return max(later - earlier for earlier, later in pairwise(sorted(acknowledged)) if later > killed_at)


def is_over(acknowledged: list[float], killed_at: float, now: float) -> bool:
    """Whether a pause has come and gone, as far as can be told: acknowledged steadily, for a while, up to now."""
    if now - killed_at > LONGEST_PAUSE_SECONDS:
        return True
    recent = sorted(time for time in acknowledged if time > now - CALM_SECONDS)
    return (
        now - killed_at > CALM_SECONDS
        and len(recent) > 2
        and max(later - earlier for earlier, later in pairwise([now - CALM_SECONDS, *recent, now])) < CALM_SECONDS / 4
    )


async def wait_until_due(due: float) -> None:
    await asyncio.sleep(max(0.0, due - perf_counter()))
