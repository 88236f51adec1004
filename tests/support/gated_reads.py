"""A Spark query that stops after its first rows until a test lets it go on: what happens meanwhile is in mid-read.

with GatedRead(frame, tmp_path) as read:
    read.wait_until_begun()
    cluster.kill(1)
    places = read.finish()            # (partition, offset) of every row
"""

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pyspark.sql import DataFrame
from support.server_processes import until

_PATIENCE_SECONDS = 120.0
_ROWS_AT_A_TIME = "spark.sql.execution.arrow.maxRecordsPerBatch"


class GatedRead:
    """Runs in a thread of its own. Spark holds a few MiB of what is read ahead: the rest must be more."""

    def __init__(self, frame: DataFrame, directory: Path) -> None:
        self._begun, self._open = directory / "begun", directory / "open"
        self._frame = frame
        self._outcome: list[tuple[int, int]] | Exception = []
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            self._outcome = places(self._frame.mapInArrow(_gate(self._begun, self._open), "partition INT, offset LONG"))
        except Exception as error:
            self._outcome = error

    def wait_until_begun(self) -> None:
        until(self._begun.exists, "the first rows are read", _PATIENCE_SECONDS)

    def finish(self) -> list[tuple[int, int]]:
        self._open.touch()
        self._thread.join(_PATIENCE_SECONDS)
        assert not self._thread.is_alive()
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome

    def __enter__(self) -> Self:
        session = self._frame.sparkSession
        session.conf.set(_ROWS_AT_A_TIME, "20")
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._open.touch()
        self._thread.join(_PATIENCE_SECONDS)
        self._frame.sparkSession.conf.unset(_ROWS_AT_A_TIME)


def places(frame: DataFrame) -> list[tuple[int, int]]:
    """(partition, offset) of every row, sorted."""
    return sorted((row.partition, row.offset) for row in frame.select("partition", "offset").collect())


def _gate(begun: Path, opened: Path) -> Callable[[Iterable[Any]], Iterator[Any]]:
    def pass_on(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            begun.touch()
            deadline = time.monotonic() + _PATIENCE_SECONDS
            while not os.path.exists(opened):
                assert time.monotonic() < deadline, "nobody opens the gate"
                time.sleep(0.01)
            yield batch.select(["partition", "offset"])

    return pass_on


def failing_once(frame: DataFrame, directory: Path, after_rows: int) -> DataFrame:
    """Each task fails the first time it has come so far."""

    def pass_on(batches: Iterable[Any]) -> Iterator[Any]:
        seen = 0
        for batch in batches:
            seen += batch.num_rows
            yield batch.select(["partition", "offset"])
            failed = os.path.join(directory, f"failed-{batch.column('partition')[0]}")
            if seen >= after_rows and not os.path.exists(failed):
                with open(failed, "w"):
                    raise RuntimeError("this task fails once")

    return frame.mapInArrow(pass_on, "partition INT, offset LONG")
