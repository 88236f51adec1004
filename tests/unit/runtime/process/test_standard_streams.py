"""Commands whose standard input or output is closed, full, or read by nobody."""

import subprocess
import sys

import pytest
from support.server_processes import variables

CLOSED = "Error: standard input or output is closed\nRemedy: redirect it: `< FILE`, `> FILE`, or a pipe\n"
FULL = "Error: No space left on device\nRemedy: correct that, then retry\n"
NOBODY = (
    "Error: confirmation required, but stdin is not a terminal\nRemedy: pass --yes to proceed without confirmation\n"
)


@pytest.mark.parametrize(
    ("typed", "code", "told"),
    [
        ("api-resources >&-", 1, CLOSED),
        ("--help >&-", 1, CLOSED),
        ("apply -f - <&-", 1, CLOSED),
        ("delete topic orders <&-", 1, NOBODY),
        ("api-resources 2>&-", 0, ""),
        ("api-resources >/dev/full", 1, FULL),
        ("explain topic >/dev/full", 1, FULL),
        ("--help >/dev/full", 1, FULL),
    ],
)
def test_what_cannot_be_written_or_read_is_told_once(typed: str, code: int, told: str) -> None:
    command = ["sh", "-c", f'exec "$0" -m lograft {typed}', sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, env=variables(), timeout=60, check=False)
    assert (done.returncode, done.stderr) == (code, told)


@pytest.mark.parametrize("typed", ["api-resources", "api-resources -o json", "explain topic", "--help"])
def test_nothing_is_said_if_nobody_reads_it(typed: str) -> None:
    """What is short is written when the command is over, and then is when it is noticed."""
    command = [sys.executable, "-m", "lograft", *typed.split()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=variables()) as done:
        assert done.stdout is not None
        assert done.stderr is not None
        done.stdout.close()
        assert (done.stderr.read(), done.wait(60)) == ("", 1)
