"""What a `load()` with `pushDown` is used for: one query, because Spark keeps the narrowed plan for whatever follows.

Spark asks Python for a plan each time it plans a query with a filter, and never for one without: that one silently has
the plan of the query before it. So two things are looked at. On the driver, whether another filter was pushed before.
Where rows are read, how often each partition was: at most as often as a query with this filter was planned. Notes are
files among those of the application, which every process of an executor sees, and which Spark removes at the end.
"""

import os
import tempfile
from dataclasses import dataclass

from pyspark import SparkFiles, TaskContext

from lograft.clients.errors import InvalidArgument
from lograft.runtime.rng import system_rng

_REMEDY = "call load() anew for each query, cache() what is used several times, or leave pushDown out"


@dataclass(frozen=True, slots=True)
class LoadUse:
    """`load_id`: of the `load()`. `planned`: how often a query of it was, `filters` being pushed."""

    load_id: str
    filters: str
    planned: int

    def check_reader(self, place: int, task: TaskContext) -> None:
        """On an executor, before partition number `place` of the plan is read: raise `InvalidArgument` if it was read
        as often as it was planned to be. A task that is tried again, or twice at a time, counts once."""
        reader = f"{_execution(task)} {task.partitionId()}"
        for number in range(self.planned):
            if _note(f"read-{self.load_id}-{place}-{number}", reader) == reader:
                return
        raise InvalidArgument(
            f"a load() with pushDown is for one query: Spark keeps the plan of the first, which was narrowed to "
            f"{self.filters}, so that rows would be missing here; {_REMEDY}"
        )


def plan_use(load_id: str, filters: str) -> LoadUse:
    """On the driver: raise `InvalidArgument` if another filter was pushed into this `load()`."""
    before = _note(f"filters-{load_id}", filters)
    if before != filters:
        raise InvalidArgument(
            f"a load() with pushDown is for one query: this one was narrowed to {before}, and is to be narrowed to "
            f"{filters}, while Spark keeps one plan for both; {_REMEDY}"
        )
    me = system_rng().uuid().hex
    planned = 1
    while _note(f"planned-{load_id}-{planned}", me) != me:
        planned += 1
    return LoadUse(load_id, filters, planned)


def _execution(task: TaskContext) -> str:
    for name in ("spark.sql.execution.root.id", "spark.sql.execution.id"):
        found = task.getLocalProperty(name)
        if found is not None:
            return str(found)
    return "-"


def _note(name: str, text: str) -> str:
    """What was noted first under that name: `text`, if nothing was."""
    directory = SparkFiles.getRootDirectory()
    path = os.path.join(directory, f"lograft-{name}")
    with tempfile.NamedTemporaryFile("w", dir=directory, prefix=".lograft-", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        try:
            os.link(file.name, path)  # whole, or not at all
        except FileExistsError:
            with open(path, encoding="utf-8") as first:
                return first.read()
    return text
