"""`make demo` as anybody would run it; and its own checks, which must be able to fail."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lograft import Record

DEMO = Path(__file__).resolve().parents[2] / "examples" / "demo"


def test_the_whole_story_is_told_and_holds(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(DEMO / "demo.py")], cwd=tmp_path, check=False, capture_output=True, text=True, timeout=400
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    summary = done.stdout[done.stdout.index("Summary") :]
    for what in ("writes paused", "records sent", "acknowledged records", "Spark counted"):
        assert f"✓ {what}" in summary, done.stdout
    assert "0 lost, 0 duplicated, 0 at another offset, 0 out of order" in summary
    assert "\x1b" not in done.stdout  # plain in a pipe
    assert not list(tmp_path.iterdir())


def record(number: int, partition: int, offset: int) -> Record:
    return Record("orders", partition, offset, 0, None, b"order %d" % number, ())


GOOD = [record(0, 0, 0), record(1, 1, 0), record(2, 0, 1)]


@pytest.mark.parametrize(("spoil", "amiss"), [
    (lambda records: records, {}),
    (lambda records: records[:2], {"lost": 1}),
    (lambda records: [*records, record(2, 0, 2)], {"twice": 1, "elsewhere": 1}),
    (lambda records: [*records[:2], record(2, 0, 7)], {"elsewhere": 1}),
    (lambda records: [records[2], records[1], records[0]], {"out_of_order": 1}),
])  # fmt: skip
def test_what_is_amiss_is_counted(
    monkeypatch: pytest.MonkeyPatch, spoil: Callable[[list[Record]], list[Record]], amiss: dict[str, int]
) -> None:
    monkeypatch.syspath_prepend(DEMO)
    from reading_back import compare
    from steady_load import Acknowledged

    acknowledged = [Acknowledged(0, 0, 0, 0.1), Acknowledged(1, 1, 0, 0.2), Acknowledged(2, 0, 1, 0.3)]
    found = compare(spoil(GOOD), acknowledged)
    counts = {name: getattr(found, name) for name in ("lost", "twice", "elsewhere", "out_of_order")}
    assert counts == {"lost": 0, "twice": 0, "elsewhere": 0, "out_of_order": 0} | amiss
    assert found.is_good == (not amiss)


def test_a_pause_that_does_not_end_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(DEMO)
    from steady_load import longest_pause

    assert longest_pause([0.1, 0.2, 0.9, 1.0], after_seconds=0.3) == pytest.approx(0.7)
    assert longest_pause([0.1, 0.2], after_seconds=0.3) is None
