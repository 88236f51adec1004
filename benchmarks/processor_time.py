"""What processes took of the processors, as the kernel has it: it says more than a clock where others work, too."""

import os
from pathlib import Path

_CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


def seconds_below(process_id: int) -> float:
    """Processor seconds of all processes that descend from this one and still run, and of those they waited for."""
    parents: dict[int, int] = {}
    seconds: dict[int, float] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                # Fields are counted behind the name, which may have blanks in it.
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has just ended
            parents[int(entry.name)] = int(fields[1])
            seconds[int(entry.name)] = sum(map(int, fields[11:15])) / _CLOCK_TICKS
    return sum(seconds[each] for each in parents if _descends(each, process_id, parents))


def _descends(process_id: int, ancestor_id: int, parents: dict[int, int]) -> bool:
    parent_id = parents.get(process_id)
    while parent_id:
        if parent_id == ancestor_id:
            return True
        parent_id = parents.get(parent_id)
    return False
