"""What benchmarks print: the machine, then one aligned table a section; and the same as JSON."""

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby
from time import perf_counter, process_time

from measure import Result

_NAME_WIDTH = 44


def describe_machine(directory: str) -> str:
    """One line: interpreter, processor, memory, and the disk that holds `directory`."""
    cores = len(os.sched_getaffinity(0))
    memory_gib = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg()[:2])
    return (
        f"Python {platform.python_version()}, {cores} cores ({_processor()}), {memory_gib:.0f} GiB; "
        f"data on {_file_system(directory)}; load before {load}"
    )


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()


def _file_system(directory: str) -> str:
    """The device and type of the file system that holds `directory`."""
    path = os.path.realpath(directory)
    try:
        with open("/proc/mounts") as lines:
            mounts = [line.split()[:3] for line in lines]
    except OSError:
        return "an unknown disk"
    holding = [mount for mount in mounts if os.path.commonpath((mount[1], path)) == mount[1]]
    device, _, kind = max(holding, key=lambda mount: len(mount[1]))
    return f"{device} ({kind})"


class Neighbours:
    """How much of the processors others took, since this was made: what they take, a measurement misses."""

    def __init__(self) -> None:
        self._started = perf_counter()
        self._busy_before = self._busy_seconds()

    def cores_used(self) -> float:
        return max(self._busy_seconds() - self._busy_before, 0.0) / (perf_counter() - self._started)

    @staticmethod
    def _busy_seconds() -> float:
        """Processor seconds of all but this process; 0 where the kernel does not tell."""
        try:
            with open("/proc/stat") as lines:
                user, nice, system, _, _, interrupts, soft_interrupts = map(int, lines.readline().split()[1:8])
        except (OSError, ValueError):
            return 0.0
        ticks = user + nice + system + interrupts + soft_interrupts
        return ticks / os.sysconf("SC_CLK_TCK") - process_time()


def print_results(results: Sequence[Result]) -> None:
    for section, lines in groupby(results, key=lambda result: result.section):
        print(f"\n{section}")
        for result in lines:
            print(f"  {_line(result)}".rstrip(), flush=True)


def _line(result: Result) -> str:
    ratio = "" if result.ratio is None else f"{result.ratio:.2f}x"
    aim = "" if result.aim is None else f"{'met' if result.is_met else 'MISSED'} (aim {result.aim.text})"
    trailing = "  ".join(filter(None, (aim, result.note)))
    return f"{result.name:<{_NAME_WIDTH}} {_number(result.value):>10} {result.unit:<10} {ratio:>7}  {trailing}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:,.1f}" if value >= 10 else f"{value:,.2f}"


def write_json(path: str, machine: str, results: Sequence[Result]) -> None:
    document = {
        "machine": machine,
        "results": [{**asdict(result), "is_met": result.is_met} for result in results],
    }
    with open(path, "w") as file:
        json.dump(document, file, indent=2)
        file.write("\n")
