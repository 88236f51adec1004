"""`make setup` makes `.venv` with the Python that it is told, and leaves it alone otherwise."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SETUP = Path(__file__).resolve().parents[3] / "tools" / "setup"

PYTHON = """#!/usr/bin/env bash
# Python VERSION, as far as the program asks it anything.
case "$*" in
    *python_version*) echo VERSION ;;
    *hashlib*) cat >/dev/null; echo stamp ;;
    *purelib*) echo "$(dirname "$0")" ;;
    *"-m venv"*) mkdir -p "$3/bin"; cp "$0" "$3/bin/python" ;;
esac
"""
JAVA = "#!/usr/bin/env bash\necho 'openjdk version \"17.0.1\"' >&2\n"


class House:
    """A checkout in which nothing is but the program, and Pythons of some versions beside it."""

    def __init__(self, directory: Path) -> None:
        self.root = directory / "checkout"
        self._programs = directory / "bin"
        (self.root / "tools").mkdir(parents=True)
        self._programs.mkdir()
        shutil.copy(SETUP, self.root / "tools" / "setup")
        (self.root / "pyproject.toml").touch()
        (self.root / "setup.py").touch()
        self._add("java", JAVA)
        for version in ("3.11.7", "3.13.0"):
            self._add(f"python{version}", PYTHON.replace("VERSION", version))
        self._add("python3", PYTHON.replace("VERSION", "3.11.7"))

    def _add(self, name: str, text: str) -> None:
        program = self._programs / name
        program.write_text(text)
        program.chmod(0o755)

    def set_up(self, python: str | None = None) -> str:
        """What it writes."""
        environment = {key: value for key, value in os.environ.items() if key not in ("PYTHON", "JAVA_HOME")}
        environment["PATH"] = f"{self._programs}:{environment['PATH']}"
        if python is not None:
            environment["PYTHON"] = python
        done = subprocess.run(
            [self.root / "tools" / "setup"], env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout

    @property
    def version(self) -> str:
        """Of the Python in `.venv`."""
        command = [self.root / ".venv" / "bin" / "python", "-c", "platform.python_version()"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()  # type: ignore[arg-type, no-any-return]


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def test_the_python_that_is_named_makes_it(house: House) -> None:
    assert "installing lograft" in house.set_up("python3.13.0")
    assert house.version == "3.13.0"
    assert house.set_up("python3.13.0") == "", "nothing has changed"


def test_another_version_makes_it_anew(house: House) -> None:
    house.set_up()
    assert house.version == "3.11.7"
    written = house.set_up("python3.13.0")
    assert ".venv has Python 3.11.7; making it anew with 3.13.0" in written
    assert "installing lograft" in written
    assert house.version == "3.13.0"


def test_what_is_there_stays_if_no_python_is_named(house: House) -> None:
    house.set_up("python3.13.0")
    assert house.set_up() == ""
    assert house.set_up("") == "", "as the Makefile hands on what it was not given"
    assert house.version == "3.13.0"
