"""The examples run as the README shows them."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=60).stdout


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
