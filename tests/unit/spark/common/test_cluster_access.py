"""How ordinary code reads ranges on the loop of the process."""

import gc
from collections.abc import AsyncIterator
from typing import Any

import pytest

from lograft.clients.errors import OffsetOutOfRange
from lograft.runtime.tasks.loop_thread import shared_loop
from lograft.spark.common import cluster_access
from lograft.spark.common.cluster_access import ClusterAccess
from lograft.spark.common.options import ClusterOptions
from lograft.spark.common.range_reader import OffsetRange, RangePart


class FailingReader:
    """Gives one part, then an error."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    async def read(self, wanted: OffsetRange) -> AsyncIterator[RangePart]:
        yield RangePart(b"", wanted.start, wanted.start + 1)
        raise OffsetOutOfRange("gone")


async def nothing() -> None:
    """For those who wait until the loop has done all that was asked of it before."""


def test_an_error_is_told_to_whoever_reads_and_to_nobody_else(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(cluster_access, "RangeReader", FailingReader)
    monkeypatch.setattr(ClusterAccess, "cluster", None, raising=False)
    loop, closed = shared_loop(), []
    begin = loop.begin

    def begin_and_note(function: Any, *arguments: Any) -> Any:
        future = begin(function, *arguments)
        closed.append(future)
        return future

    monkeypatch.setattr(loop, "begin", begin_and_note)
    access = ClusterAccess(loop, "localhost:1")
    with pytest.raises(OffsetOutOfRange, match="gone"):
        list(access.read(OffsetRange("orders", b"o" * 16, 0, 0, 10), ClusterOptions("localhost:1"), spreads=False))
    closed[-1].result(10)
    gc.collect()
    loop.run(nothing)
    assert caplog.records == []


def test_what_is_asked_for_reaches_whoever_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, object] = {}

    class Noting(FailingReader):
        def __init__(self, *_: object, **options: object) -> None:
            asked.update(options)

    monkeypatch.setattr(cluster_access, "RangeReader", Noting)
    monkeypatch.setattr(ClusterAccess, "cluster", None, raising=False)
    access = ClusterAccess(shared_loop(), "localhost:1")
    options = ClusterOptions("localhost:1", rack="here", timeout_ms=5000)
    read = access.read(OffsetRange("orders", b"o" * 16, 0, 0, 10), options, spreads=True)
    assert next(read).next_offset == 1
    assert asked == {"rack": "here", "spreads": True, "patience_ms": 5000}
    read.close()  # type: ignore[attr-defined]
