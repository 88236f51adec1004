"""`make test`: each part runs whatever became of those before, and one summary at the end says what came of all."""

import os
import sys
from pathlib import Path
from types import ModuleType

import pytest
from support.tools import load_tool

GOOD = "def test_holds():\n    assert True\n"
BAD = "def test_fails():\n    assert False\n\ndef test_holds():\n    assert True\n"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    return load_tool("test_run")


def pytest_part(tool: ModuleType, name: str, directory: Path, source: str) -> object:
    file = directory / f"test_{name}.py"
    file.write_text(source)
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", str(file))
    return tool.Part(name, command, has_tests=True)


def test_what_fails_keeps_nothing_else_from_running(
    tool: ModuleType, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    parts = [
        tool.Part("lint", (sys.executable, "-c", "print('lint ran')")),
        tool.Part("types", (sys.executable, "-c", "raise SystemExit(2)"), lane=1),
        pytest_part(tool, "tests", tmp_path, BAD),
        pytest_part(tool, "Spark", tmp_path, GOOD),
    ]
    assert tool.main(parts) == 1
    written = capfd.readouterr().out
    summary = written[written.rindex("Python ") :].splitlines()
    assert summary[0].startswith(f"Python {sys.version.split()[0]}")
    states = [line.split()[:2] for line in summary[1:] if not line.startswith("    ")]
    assert states[:4] == [["lint", "passed"], ["types", "FAILED"], ["tests", "FAILED"], ["Spark", "passed"]]
    assert "1 failed, 1 passed" in summary[3]
    assert [line.strip() for line in summary if line.startswith("    ")] == ["FAILED test_tests::test_fails"]
    assert summary[-1].startswith("FAILED: types, tests in ")


def test_all_is_well_only_if_every_part_is(tool: ModuleType, tmp_path: Path) -> None:
    assert tool.main([pytest_part(tool, "tests", tmp_path, GOOD)]) == 0
    assert tool.main([tool.Part("lint", (sys.executable, "-c", "raise SystemExit(1)"))]) == 1


def test_a_pytest_that_dies_is_no_success(tool: ModuleType, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    part = pytest_part(tool, "tests", tmp_path, "import os\n\ndef test_dies():\n    os._exit(0)\n")
    assert tool.main([part]) == 1
    assert "ended without a report" in capfd.readouterr().out


def test_lanes_run_beside_each_other(tool: ModuleType, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Whoever opens one end of a pipe waits for the other."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    parts = [
        tool.Part(mode, (sys.executable, "-c", f"open({str(pipe)!r}, {mode!r})"), lane=lane)
        for lane, mode in enumerate("rw")
    ]
    assert tool.main(parts) == 0
    assert "everything passed in " in capfd.readouterr().out
