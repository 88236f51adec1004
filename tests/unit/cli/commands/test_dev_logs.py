"""`lograft dev logs`, of files that nodes have left."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from lograft.cli.main import cli
from lograft.clients.local.layout import new_layout
from lograft.clients.local.local_cluster import LocalCluster


def line(number: int, level: str = "info", minutes_ago: float = 0) -> str:
    time = (datetime.now(UTC) - timedelta(minutes=minutes_ago)).isoformat()
    return json.dumps({"timestamp": time, "level": level, "logger": "lograft", "event": f"event_{number}"})


@pytest.fixture
def lines(tmp_path: Path) -> list[str]:
    cluster = LocalCluster(tmp_path, new_layout("dev-1", 1, 9092))
    cluster.save()
    events = [line(1, "error", 60), line(2, minutes_ago=5), line(3, "warning", 5), line(4, minutes_ago=1)]
    written = [*events, "Error: a word"]
    cluster.nodes[0].directory.mkdir()
    cluster.nodes[0].output_path.write_text("\n".join(written))
    return written


def logs(directory: Path, *flags: str) -> list[str]:
    done = CliRunner().invoke(cli, ["dev", "logs", "1", "--data-dir", str(directory), *flags])
    assert done.exit_code == 0, done.output
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("flags", "numbers"),
    [
        ([], [0, 1, 2, 3, 4]),
        (["--level", "warning"], [0, 2, 4]),
        (["--since", "10m"], [1, 2, 3, 4]),
        (["--since", "-10m", "--level", "warning"], [2, 4]),
        (["--since", "2020-01-01", "--level", "error"], [0, 4]),
        (["--since", "now"], []),
        (["--tail", "2"], [3, 4]),
        (["--tail", "0"], []),
        (["--tail", "2", "--level", "warning"], [2, 4]),
    ],
)
def test_lines_are_chosen(tmp_path: Path, lines: list[str], flags: list[str], numbers: list[int]) -> None:
    expected = [lines[number] for number in numbers]
    assert logs(tmp_path, "-o", "json", *flags) == expected
    assert len(logs(tmp_path, *flags)) == len(expected)


def test_people_are_shown_columns(tmp_path: Path, lines: list[str]) -> None:
    shown = logs(tmp_path)
    assert [each.split()[1:] for each in shown[:4]] == [
        ["ERROR", "event_1"], ["INFO", "event_2"], ["WARNING", "event_3"], ["INFO", "event_4"],
    ]  # fmt: skip
    assert shown[4] == "Error: a word"
    assert "\x1b" not in "".join(shown)


@pytest.mark.parametrize("since", ["noon", "latest", "earliest", "10"])
def test_a_time_that_is_none_is_refused(tmp_path: Path, lines: list[str], since: str) -> None:
    done = CliRunner().invoke(cli, ["dev", "logs", "1", "--data-dir", str(tmp_path), "--since", since])
    assert done.exit_code == 2
    assert "is neither a duration such as 10m nor a time" in done.stderr
