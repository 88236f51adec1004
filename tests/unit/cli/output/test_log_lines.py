"""Lines of a node's log: which are chosen, and how people read them."""

import json
from typing import Any

import pytest

from lograft.cli.output.log_lines import LogFilter, format_line, parse_line

NOON_MS = 1_767_268_800_000  # 2026-01-01T12:00Z


def event(level: str = "info", time: str = "2026-01-01T12:00:00.123456Z", **fields: Any) -> str:
    first = {"timestamp": time, "level": level, "logger": "lograft.broker.node.node", "event": "isr_shrunk"}
    return json.dumps({**first, "node_id": 1, **fields})


def shown(text: str, *, is_coloured: bool = False) -> str:
    return format_line(parse_line(text), is_coloured=is_coloured)


def test_columns_are_aligned() -> None:
    assert [shown(event(topic="orders", partition=0)), shown(event("warning", isr=[1, 2]))] == [
        "2026-01-01T12:00:00.123Z  INFO      isr_shrunk                 topic=orders partition=0",
        "2026-01-01T12:00:00.123Z  WARNING   isr_shrunk                 isr=[1,2]",
    ]
    assert shown(event()) == "2026-01-01T12:00:00.123Z  INFO      isr_shrunk"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("orders", "orders"),
        ("127.0.0.1:9092", "127.0.0.1:9092"),
        ("two words", '"two words"'),
        ("a=b", '"a=b"'),
        ("", '""'),
        ("\x1b[2J", '"\\u001b[2J"'),
        ("größe", "größe"),
        (None, "null"),
        (True, "true"),
        ({"a": 1}, '{"a":1}'),
    ],
)
def test_a_value_is_plain_where_that_is_clear(value: Any, text: str) -> None:
    assert shown(event(value=value)).endswith(f" value={text}")


def test_a_traceback_follows_its_event() -> None:
    lines = shown(event("error", exception="Traceback:\n  File x\nZeroDivisionError")).splitlines()
    assert lines[0].endswith("isr_shrunk")
    assert lines[1:] == ["    Traceback:", "      File x", "    ZeroDivisionError"]


def test_colours_change_nothing_else() -> None:
    coloured = shown(event("warning", topic="orders"), is_coloured=True)
    assert "\x1b[33mWARNING" in coloured
    assert "\x1b[36mtopic\x1b[0m=orders" in coloured
    assert "\x1b" not in shown(event("warning", topic="orders"))


@pytest.mark.parametrize(
    "text",
    ["Error: port 9092 is in use", "{", "[]", "5", "", '{"event": "x"}', event(level="loud"), event(time="noon")],
)
def test_a_line_that_is_no_event_is_printed_as_it_is(text: str) -> None:
    assert shown(text) == text


def test_levels_choose() -> None:
    levels = ["debug", "info", "warning", "error", "critical"]
    lines = [parse_line(event(level)) for level in levels] + [parse_line("Error: what")]
    for number, level in enumerate(levels[:4]):
        accepts = LogFilter(level).accepts
        assert [accepts(line) for line in lines] == [False] * number + [True] * (6 - number)


def test_times_choose_and_a_traceback_goes_with_its_event() -> None:
    texts = [event(time="2026-01-01T11:59:59.9Z"), "old", event(time="2026-01-01T12:00:00Z"), "new"]
    accepts = LogFilter(since_ms=NOON_MS).accepts
    assert [accepts(parse_line(text)) for text in texts] == [False, False, True, True]
    assert LogFilter(since_ms=NOON_MS).accepts(parse_line("before any event"))
