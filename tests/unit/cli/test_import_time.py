"""What a person waits for must not import what it does not use: these packages take a tenth of a second each."""

import subprocess
import sys

import pytest

from lograft.__main__ import MORE_COMMANDS
from lograft.cli.main import COMMANDS

HEAVY = ("grpc", "pyarrow", "structlog", "numpy", "asyncio")

SCRIPT = f"""
import sys
sys.argv = ["lograft", *sys.argv[1:]]
from lograft.__main__ import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
loaded = [name for name in {HEAVY} if name in sys.modules]
assert not loaded, loaded
"""


def run(*arguments: str) -> str:
    result = subprocess.run([sys.executable, "-c", SCRIPT, *arguments], capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


def test_the_version_is_told_without_heavy_imports() -> None:
    assert run("--version") == "lograft 0.1.0\n"


def test_help_names_every_command_without_importing_any() -> None:
    help_text = run("--help")
    commands = {**COMMANDS, **MORE_COMMANDS}
    assert all(name in help_text and command.summary in help_text for name, command in commands.items())


@pytest.mark.parametrize("name", [*COMMANDS, *MORE_COMMANDS])
def test_every_command_in_the_table_can_be_loaded(name: str) -> None:
    assert {**COMMANDS, **MORE_COMMANDS}[name].load().name == name
