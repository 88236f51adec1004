"""docs/spark.md has every option there is, says what it is for, and has no others."""

import re
from pathlib import Path

import pytest

from lograft.clients.times import parse_duration
from lograft.spark.common.options import (
    DEFAULT_DELAY_MS,
    DEFAULT_GROUP_PREFIX,
    DEFAULT_TIMEOUT_MS,
    READ_OPTIONS,
    STREAM_OPTIONS,
)
from lograft.spark.writing.write_options import WRITE_OPTIONS

DOCUMENT = Path(__file__).resolve().parents[4] / "docs" / "spark.md"


def rows() -> list[tuple[list[str], str, list[str]]]:
    """Names, default, and what for."""
    section = re.search(r"^## Options\n(.*?)^## ", DOCUMENT.read_text(), re.DOTALL | re.MULTILINE)
    assert section is not None
    cells = [[cell.strip() for cell in line.split("|")[1:4]] for line in section[1].splitlines() if "`" in line]
    return [(re.findall(r"`([^`]+)`", names), default, purposes.split(", ")) for names, default, purposes in cells]


def documented(purpose: str) -> list[str]:
    return sorted(name for names, _, purposes in rows() for name in names if purpose in purposes)


@pytest.mark.parametrize(
    ("purpose", "options"), [("batch", READ_OPTIONS), ("stream", STREAM_OPTIONS), ("write", WRITE_OPTIONS)]
)
def test_the_table_has_the_options_of_the_code(purpose: str, options: tuple[str, ...]) -> None:
    assert documented(purpose) == sorted(options)


def test_no_option_is_in_the_table_twice_or_for_something_unknown() -> None:
    names = [name for names, _, _ in rows() for name in names]
    assert len(names) == len(set(names))
    assert {purpose for _, _, purposes in rows() for purpose in purposes} == {"batch", "stream", "write"}


def test_defaults_are_those_of_the_code() -> None:
    defaults = {names[0]: default.strip("`") for names, default, _ in rows()}
    assert defaults["timeoutMs"] == f"{DEFAULT_TIMEOUT_MS:,}"
    assert defaults["groupIdPrefix"] == DEFAULT_GROUP_PREFIX
    assert parse_duration(defaults["maxTriggerDelay"]) == DEFAULT_DELAY_MS
