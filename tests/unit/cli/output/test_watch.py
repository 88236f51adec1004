"""Looking again and again: what is shown of it, in a pipe and on a terminal; which are shown, and in which colour."""

import asyncio
import io
import json
import sys
from collections.abc import Callable, Sequence

import click
import pytest

from lograft.cli.common.cluster_options import Settings
from lograft.cli.common.nouns import Noun
from lograft.cli.output.resource_filters import Selection, check_selection, select
from lograft.cli.output.resource_output import Column, Resource, has_colours, resource, table_lines
from lograft.cli.output.watch import watch
from lograft.clients.errors import LograftError, NotLeader, UnknownTopic

COLUMNS = (
    Column("NAME", lambda each: each["metadata"]["name"]),
    Column("OFFLINE", lambda each: each["status"]["offline"], is_number=True, is_bad=lambda e: e["status"]["offline"]),
)


def topic(name: str, offline: int = 0) -> Resource:
    return resource("Topic", {"name": name}, status={"offline": offline})


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class StillClock:
    def wall_ms(self) -> int:
        return 0

    def monotonic_ms(self) -> int:
        return 0

    async def sleep_ms(self, duration_ms: float) -> None:
        await asyncio.sleep(0)


class Over(Exception):
    """Nothing more is seen."""


@pytest.fixture
def shown(
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., str]:
    def run(
        looks: Sequence[list[Resource] | LograftError],
        output: str,
        out: io.StringIO | None = None,
        doubts: Sequence[str] = (),
    ) -> str:
        out = out if out is not None else io.StringIO()
        monkeypatch.setattr(sys, "stdout", out)
        seen, doubted = iter(looks), iter(doubts)

        async def look() -> list[Resource]:
            found = next(seen, None)
            if found is None:
                raise Over
            if isinstance(found, LograftError):
                raise found
            return found

        with pytest.raises((Over, LograftError)):
            asyncio.run(
                watch(
                    look,
                    COLUMNS,
                    Settings("b", 1, output=output),
                    StillClock(),  # type: ignore[arg-type]
                    none="None.",
                    doubt=lambda: next(doubted, ""),
                )
            )
        return out.getvalue()

    return run


def test_in_a_pipe_only_what_has_changed_is_appended(
    shown: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    looks = [
        [topic("a"), topic("b")],
        [topic("a"), topic("b")],
        [topic("a", 1), topic("b"), topic("long")],
        [topic("b")],
    ]
    assert shown(looks, "table") == (
        "NAME   OFFLINE\n"
        "a            0\n"
        "b            0\n"
        "a            1\n"
        "long         0\n"
    )  # fmt: skip
    assert capsys.readouterr().err == "topic/a deleted\ntopic/long deleted\n"
    assert shown(looks, "name") == "topic/a\ntopic/b\ntopic/a\ntopic/long\n"
    assert shown(looks[:2], "yaml").count("---\n") == 2
    assert shown(looks, "jsonpath={.status.offline}") == "0010"
    decoder, text, documents = json.JSONDecoder(), shown(looks, "json"), []
    while text.strip():
        document, end = decoder.raw_decode(text.strip())
        documents.append(document)
        text = text.strip()[end:]
    assert documents == [topic("a"), topic("b"), topic("a", 1), topic("long")]


def test_on_a_terminal_the_table_is_redrawn_in_its_place_and_only_when_it_changed(
    shown: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    looks = [[topic("a"), topic("b")], [topic("a"), topic("b")], [topic("a", 1)], []]
    first, second, third = shown(looks, "table", Terminal()).removeprefix("\x1b[J").split("\x1b[J")
    assert first == "\x1b[?7lNAME   OFFLINE\na            0\nb            0\n\x1b[?7h\x1b[3F"
    assert second == "\x1b[?7lNAME   OFFLINE\na            1\n\x1b[?7h\x1b[2F"
    assert third == "\x1b[?7lNone.\n\x1b[?7h"


def test_a_table_higher_than_the_terminal_is_cut(shown: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINES", "5")
    text = shown([[topic(str(number)) for number in range(10)]], "table", Terminal())
    assert text.count("\n") == 4
    assert "... and 8 more" in text


def test_trouble_that_may_pass_is_told_once_and_other_trouble_ends_it(
    shown: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    passing = NotLeader("nobody there")
    looks = [[topic("a")], passing, passing, [topic("a")], UnknownTopic("there is no topic")]
    assert shown(looks, "name") == "topic/a\n"
    assert capsys.readouterr().err == "Not updated: nobody there\n"
    assert shown([passing, [topic("a")]], "name") == ""


def test_what_may_be_old_is_said_so_as_long_as_it_may(shown: Callable[..., str]) -> None:
    old = "It may be old."
    text = shown([[topic("a")], [topic("a")], [topic("a")]], "table", Terminal(), doubts=[old, old, ""])
    drawn = text.split("\x1b[J")[1:]
    assert [old in each for each in drawn] == [True, False]


# -- colours


def test_what_is_bad_is_red_and_the_columns_stay_aligned() -> None:
    settings = Settings("b", 1)
    resources = [topic("a", 1), topic("longer", 10), topic("b")]
    plain = table_lines(resources, COLUMNS, settings)
    coloured = table_lines(resources, COLUMNS, settings, is_coloured=True)
    assert [line.replace("\x1b[31m", "").replace("\x1b[0m", "") for line in coloured] == plain
    assert coloured[1:] == [
        "a              \x1b[31m1\x1b[0m\n",
        "longer        \x1b[31m10\x1b[0m\n",
        "b              0\n",
    ]


def test_there_are_colours_only_on_a_terminal_that_wants_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert has_colours(Terminal())
    assert not has_colours(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "")
    assert has_colours(Terminal())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not has_colours(Terminal())
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert not has_colours(Terminal())


# -- selecting


def partition(number: int, leader: int | None, isr: list[int], name: str = "t") -> Resource:
    status = {"leader": leader, "replicas": [1, 2, 3], "isr": isr}
    return resource("Partition", {"name": f"{name}-{number}", "topic": name, "partition": number}, status=status)


PARTITIONS = [
    partition(0, 1, [1, 2, 3]),
    partition(1, 1, [1, 2]),
    partition(2, 1, [1]),
    partition(3, None, []),
    partition(4, 1, [1], "of-no-min"),
]


@pytest.mark.parametrize(
    ("selection", "numbers"),
    [
        (Selection(), [0, 1, 2, 3, 4]),
        (Selection(under_replicated=True), [1, 2, 3, 4]),
        (Selection(offline=True), [3]),
        (Selection(under_min_isr=True), [2, 3]),
        (Selection(offline=True, under_min_isr=True), [2, 3]),
    ],
)
def test_partitions_are_selected_by_what_ails_them(selection: Selection, numbers: list[int]) -> None:
    found = select(PARTITIONS, Noun.PARTITION, selection, {"t": 2, "of-no-min": 1})
    assert [each["metadata"]["partition"] for each in found] == numbers


def test_groups_topics_and_brokers_are_selected() -> None:
    groups = [resource("Group", {"name": name}, status={"lag": lag}) for name, lag in (("a", 0), ("b", 3), ("c", None))]
    found = select(groups, Noun.GROUP, Selection(lagging=True), {})
    assert [each["metadata"]["name"] for each in found] == ["b", "c"]
    topics = [resource("Topic", {}, status={"underReplicated": n, "offline": n // 2}) for n in (0, 1, 2)]
    assert select(topics, Noun.TOPIC, Selection(under_replicated=True), {}) == topics[1:]
    assert select(topics, Noun.TOPIC, Selection(offline=True), {}) == topics[2:]
    brokers = [resource("Broker", {}, status={"state": state}) for state in ("active", "fenced", "shutting-down")]
    assert select(brokers, Noun.BROKER, Selection(offline=True), {}) == brokers[1:]


def test_what_is_not_said_of_such_things_is_refused() -> None:
    with pytest.raises(click.UsageError, match="--lagging applies to groups, not to topics"):
        check_selection(Selection(lagging=True), Noun.TOPIC)
    for noun in Noun:
        check_selection(Selection(), noun)
