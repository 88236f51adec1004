"""The examples run as the README shows them."""

import subprocess
import sys
from pathlib import Path

from lograft.testing import cluster

ROOT = Path(__file__).resolve().parents[2]


def run(*command: str, given: str | None = None) -> str:
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=60, input=given)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_write_a_log_and_look_into_it(tmp_path: Path) -> None:
    target = tmp_path / "data"
    assert "offsets 0 to 199" in run(sys.executable, "examples/write_a_log.py", str(target))
    (partition,) = [path for path in target.iterdir() if path.is_dir()]
    dumped = run(sys.executable, "-m", "lograft", "dump-log", str(partition / f"{0:020d}.log"), "--deep")
    assert "order-0" in dumped


def test_writing_again_goes_on_where_the_log_ended(tmp_path: Path) -> None:
    target = tmp_path / "data"
    run(sys.executable, "examples/write_a_log.py", str(target))
    assert "offsets 0 to 399" in run(sys.executable, "examples/write_a_log.py", str(target))


def test_words_are_counted() -> None:
    with cluster() as running:
        command = (sys.executable, "examples/word_count.py", running.bootstrap)
        told = run(*command, given="the quick brown fox\nThe lazy dog\nthe end\n")
        assert told.splitlines()[0].split() == ["3", "the"]
        assert run(*command, given="the end\n").splitlines()[:2] == ["     4 the", "     2 end"]


def test_events_are_read_as_they_were_stored() -> None:
    with cluster() as running:
        told = run(sys.executable, "examples/json_events.py", running.bootstrap).splitlines()
    assert sorted(told[:3]) == [f"{user}: 100 events, in order: True" for user in ("ada", "edsger", "grace")]
    assert told[3].startswith("300 rows of columns ['topic', 'partition', 'offset',")


def test_a_service_answers_until_it_is_stopped() -> None:
    with cluster() as running:
        told = run(sys.executable, "examples/asyncio_service.py", running.bootstrap)
    assert told.splitlines() == ["FIRST", "SECOND", "THIRD", "stopped"]
