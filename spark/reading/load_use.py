"""Restricts a `load()` with `pushDown` to one query, because Spark keeps the narrowed plan for later queries.

Spark asks Python for a plan each time it plans a query with a filter, but never for a query without one, which silently
reuses the previous query's plan. So four rules detect reuse:

- On the driver: another filter was pushed before.
- On the executors: another execution has read this plan before.
- The query that reads was created after the plan. Spark identifies queries by UUIDs that begin with the time (since
  4.3). The plan then belongs to an earlier query, which may only have been explained.
- Partitions were read more often, or in other stages, than planned: a plan is valid for as many scans as were planned
  since the query was created. Another stage, another partition of a stage, or a task that reads the same range again
  is another scan: the other side of a join or a union, or a subquery, without a filter of its own. Spark also reads a
  frame twice to sort it.

State is kept in files in the application's directory, which all processes of an executor share, and which Spark removes
at the end. `docs/spark.md` lists the cases that no rule detects.
"""

import os
import tempfile
from dataclasses import dataclass
from uuid import UUID

from pyspark import SparkFiles, TaskContext

from lograft.clients.errors import InvalidArgument
from lograft.runtime.rng import system_rng

_REMEDY = (
    "call load() anew for each query, keep rows that are used several times with localCheckpoint(), or leave pushDown "
    "out"
)
_QUERY_ID = "spark.sql.execution.query.id"


@dataclass(frozen=True, slots=True)
class LoadUse:
    """`load_id`: identifies the `load()`. `planned_at_ms`: when it was planned with `filters`; this plan is the last
    one."""

    load_id: str
    filters: str
    planned_at_ms: tuple[int, ...]

    def check_reader(self, place: int, task: TaskContext) -> None:
        """Raise `InvalidArgument` if the query that is about to read partition number `place` is not the planned one.
        Called on an executor. Retries and speculative attempts of a task count once."""
        made_at_ms = query_made_at_ms(task.getLocalProperty(_QUERY_ID)) or 0
        may_read = sum(planned_at_ms >= made_at_ms for planned_at_ms in self.planned_at_ms)
        plan = f"{self.load_id}-{len(self.planned_at_ms)}"
        execution = _execution(task)
        if may_read == 0 or _note(f"reader-{plan}", execution) != execution:
            raise self._refusal()
        reader = f"{execution} {task.stageId()} {task.partitionId()}"
        if not any(_note(f"read-{plan}-{place}-{number}", reader) == reader for number in range(may_read)):
            raise self._refusal()
        me = system_rng().uuid().hex
        in_attempt = f"attempt-{plan}-{place}-{task.taskAttemptId()}"
        if not any(_note(f"{in_attempt}-{number}", me) == me for number in range(may_read)):
            raise self._refusal()

    def _refusal(self) -> InvalidArgument:
        return InvalidArgument(
            f"a load() with pushDown is for one query: Spark keeps the plan of the first, which was narrowed to "
            f"{self.filters}, so that rows would be missing here; {_REMEDY}"
        )


def query_made_at_ms(query_id: str | None) -> int | None:
    """Return when Spark created the query, from its id; None unless that is a UUID of version 7."""
    try:
        found = UUID(query_id or "")
    except ValueError:
        return None
    return found.int >> 80 if found.version == 7 else None


def plan_use(load_id: str, filters: str, now_ms: int) -> LoadUse:
    """Record a plan, on the driver. Raise `InvalidArgument` if another filter was pushed into this `load()` before."""
    before = _note(f"filters-{load_id}", filters)
    if before != filters:
        raise InvalidArgument(
            f"a load() with pushDown is for one query: this one was narrowed to {before}, and is to be narrowed to "
            f"{filters}, while Spark keeps one plan for both; {_REMEDY}"
        )
    me = f"{now_ms} {system_rng().uuid().hex}"
    planned: list[str] = []
    while me not in planned:
        planned.append(_note(f"planned-{load_id}-{len(planned) + 1}", me))
    return LoadUse(load_id, filters, tuple(int(note.split()[0]) for note in planned))


def _execution(task: TaskContext) -> str:
    for name in ("spark.sql.execution.root.id", "spark.sql.execution.id"):
        found = task.getLocalProperty(name)
        if found is not None:
            return str(found)
    return f"stage {task.stageId()}"  # `rdd` is not an SQL query


def _note(name: str, text: str) -> str:
    """Store `text` under this name unless something is stored already. Return the stored text."""
    directory = SparkFiles.getRootDirectory()
    path = os.path.join(directory, f"lograft-{name}")
    with tempfile.NamedTemporaryFile("w", dir=directory, prefix=".lograft-", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        try:
            os.link(file.name, path)  # atomic
        except FileExistsError:
            with open(path, encoding="utf-8") as first:
                return first.read()
    return text
