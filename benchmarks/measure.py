"""Timing for benchmarks. Contenders take turns within one run, because machines change from minute to minute."""

import gc
import mmap
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from time import thread_time

MEBIBYTE = 1024 * 1024
MEGABYTE = 1_000_000

Contender = Callable[[], Awaitable[float]]
Samples = Mapping[str, list[float]]


@dataclass(frozen=True, slots=True)
class Aim:
    """What we hope for: a value, or a ratio to the baseline, below `below`, or a value of at least `at_least`."""

    below: float
    text: str
    at_least: float = 0.0


@dataclass(frozen=True, slots=True)
class Result:
    """One line of the report. `ratio` says how many times slower than the baseline it is (below 1: faster)."""

    section: str
    name: str
    value: float
    unit: str
    ratio: float | None = None
    aim: Aim | None = None
    note: str = ""

    @property
    def is_met(self) -> bool | None:
        if self.aim is None:
            return None
        return self.aim.at_least <= (self.value if self.ratio is None else self.ratio) < self.aim.below


async def take_turns(rounds: int, contenders: Mapping[str, Contender]) -> Samples:
    """What each contender answered in each round, after one that is forgotten: it warms caches and memory.

    Every other round goes backwards, so that none always finds what the same one leaves behind.
    """
    samples: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(rounds + 1):
        in_order = list(contenders.items())
        for name, contender in in_order[::-1] if turn % 2 else in_order:
            gc.collect()
            answer = await contender()
            if turn > 0:
                samples[name].append(answer)
    return samples


def slowdown(samples: Samples, name: str, baseline: str) -> float:
    """How many times slower `name` is than `baseline`, both given as rates: the median over rounds."""
    return median(bare / own for own, bare in zip(samples[name], samples[baseline], strict=True))


def nanoseconds_each(function: Callable[[], object], items: int, repetitions: int) -> Contender:
    """A contender: nanoseconds an item, of a function that handles `items` at a time and only computes.

    Time on the processor, which is all the time it takes where nothing else wants the processor.
    """

    async def contender() -> float:
        started = thread_time()
        for _ in range(repetitions):
            function()
        return (thread_time() - started) / (items * repetitions) * 1e9

    return contender


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


def megabytes_per_second(size_bytes: int, seconds: float) -> float:
    return size_bytes / MEGABYTE / seconds


def warm_memory(size_bytes: int) -> None:
    """Use memory once: on virtual machines the first touch of a page asks the host for it, and is very slow."""
    with mmap.mmap(-1, size_bytes) as memory:
        page = b"\x01" * MEBIBYTE
        for position in range(0, size_bytes, MEBIBYTE):
            memory[position : position + MEBIBYTE] = page
