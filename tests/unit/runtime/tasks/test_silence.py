import asyncio

from support.raft_nodes import make_runtime, virtual

from lograft.runtime.tasks.silence import Silence


class StallingClock:
    """A clock whose loop stands still for a while, once: a sleep ends late by that much."""

    def __init__(self, stall_ms: int) -> None:
        self.now_ms = 0
        self._stall_ms = stall_ms

    def wall_ms(self) -> int:
        raise AssertionError

    def monotonic_ms(self) -> int:
        return self.now_ms

    async def sleep_ms(self, duration_ms: float) -> None:
        await asyncio.sleep(0)
        self.now_ms += int(duration_ms) + self._stall_ms
        self._stall_ms = 0


@virtual
async def test_silence_is_too_long_when_nothing_was_heard_for_the_limit() -> None:
    clock = make_runtime(1).clock
    silence = Silence(clock, 1500)
    waiting = asyncio.ensure_future(silence.too_long())
    for _ in range(10):
        await asyncio.sleep(1.4)
        silence.heard()
    assert not waiting.done()
    heard_ms = clock.monotonic_ms()
    await waiting
    assert clock.monotonic_ms() - heard_ms == 1500


@virtual
async def test_after_a_stall_of_our_own_what_came_meanwhile_is_read_first() -> None:
    clock = StallingClock(5000)
    silence = Silence(clock, 1500)  # type: ignore[arg-type]
    waiting = asyncio.ensure_future(silence.too_long())
    while clock.now_ms < 6500:  # noqa: ASYNC110 (no real time passes)
        await asyncio.sleep(0)
    silence.heard()
    await waiting
    assert clock.now_ms >= 6500 + 1500


@virtual
async def test_after_a_stall_in_which_nothing_came_the_silence_is_too_long() -> None:
    clock = StallingClock(5000)
    await Silence(clock, 1500).too_long()  # type: ignore[arg-type]
    assert 6500 <= clock.now_ms < 6600
