import asyncio
import itertools

import pytest
from support.raft_nodes import make_runtime, virtual

from lograft.runtime.network import ConnectFailed
from lograft.runtime.rng import Rng
from lograft.runtime.tasks.retry import ExponentialWait, TryAgain, retrying

LONGEST_MS = (20, 40, 80, 160, 320, 500, 500, 500)


def test_delays_double_up_to_the_last_and_begin_anew_after_a_success() -> None:
    wait = ExponentialWait(Rng(1), 20, 500)
    for _ in range(2):
        for longest_ms in LONGEST_MS:
            assert longest_ms / 2 <= wait.next_ms() <= longest_ms
        wait.succeeded()


def test_without_an_rng_delays_are_the_longest() -> None:
    wait = ExponentialWait(None, 20, 500)
    assert [wait.next_ms() for _ in LONGEST_MS] == list(LONGEST_MS)


async def _attempt_times(seed: int, failures: int) -> list[float]:
    """When each attempt of a call was made that fails so many times."""
    runtime = make_runtime(seed)
    loop = asyncio.get_running_loop()
    times: list[float] = []
    async for attempt in retrying(runtime.clock, ExponentialWait(runtime.rng, 20, 500), on=ConnectFailed):
        with attempt:
            times.append(loop.time())
            if len(times) <= failures:
                raise ConnectFailed("a:1", "refused")
    return times


@virtual
async def test_the_same_seed_retries_at_the_same_virtual_times() -> None:
    loop = asyncio.get_running_loop()
    runs = []
    for seed in (7, 7, 8):
        started = loop.time()
        runs.append([round(time - started, 9) for time in await _attempt_times(seed, len(LONGEST_MS))])
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


@virtual
async def test_attempts_are_as_far_apart_as_the_wait_draws() -> None:
    times = await _attempt_times(7, len(LONGEST_MS))
    wait = ExponentialWait(make_runtime(7).rng, 20, 500)
    drawn = [wait.next_ms() / 1000 for _ in LONGEST_MS]
    assert [after - before for before, after in itertools.pairwise(times)] == pytest.approx(drawn)


@virtual
async def test_try_again_retries_because_of_an_answer() -> None:
    runtime = make_runtime(1)
    answers = [0, 0, 5]
    async for attempt in retrying(runtime.clock, ExponentialWait(runtime.rng, 20, 500), on=()):
        with attempt:
            if not (answer := answers.pop(0)):
                raise TryAgain
    assert answer == 5
    assert not answers


@virtual
async def test_other_errors_are_raised_at_the_first_attempt() -> None:
    runtime = make_runtime(1)
    attempts = 0

    async def ask() -> None:
        nonlocal attempts
        async for attempt in retrying(runtime.clock, ExponentialWait(runtime.rng, 20, 500), on=ConnectFailed):
            with attempt:
                attempts += 1
                raise KeyError

    with pytest.raises(KeyError):
        await ask()
    assert attempts == 1


@virtual
async def test_a_retry_loop_is_cancelled_during_an_attempt_and_between_two() -> None:
    runtime = make_runtime(1)

    async def ask(seconds: float) -> None:
        async for attempt in retrying(runtime.clock, ExponentialWait(runtime.rng, 1000, 1000), on=ConnectFailed):
            with attempt:
                await asyncio.sleep(seconds)
                raise ConnectFailed("a:1", "refused")

    for seconds in (60, 0):
        task = asyncio.ensure_future(ask(seconds))
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
