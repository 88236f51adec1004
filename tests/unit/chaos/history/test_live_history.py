"""Histories as lines: what is written is read, however much of it there is."""

import io
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.live_stories import Story

from lograft.chaos.harness.outcome import Outcome
from lograft.chaos.history.entries import (
    COMPLETIONS,
    EVENTS,
    NEVER_RETURNED,
    OPERATIONS,
    Done,
    Entry,
    Moment,
    Polled,
    PolledPartition,
    Send,
    began,
    outcome_of,
)
from lograft.chaos.history.entry_codec import COMPLETIONS_OF
from lograft.chaos.history.history import History, HistoryDamaged, HistoryWriter, read_history, write_history
from lograft.clients.types import TopicPartition


@st.composite
def polled_partitions(draw: st.DrawFn) -> PolledPartition:
    got = draw(st.lists(st.tuples(st.integers(), st.text()), max_size=3))
    positions = [draw(st.none() | st.integers()) for _ in range(3)]
    offsets, values = tuple(offset for offset, _ in got), tuple(value for _, value in got)
    return PolledPartition(TopicPartition("t", 1), offsets, values, *positions[:2], draw(st.booleans()), positions[2])  # type: ignore[arg-type, call-arg]


st.register_type_strategy(PolledPartition, polled_partitions())
ENTRIES = st.one_of([st.from_type(kind) for kind in (*OPERATIONS, *EVENTS)])


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Of anything at all. Operations have numbers of their own."""
    entries: list[Entry] = []
    for number, entry in enumerate(draw(st.lists(ENTRIES, max_size=6))):
        entries.append(replace(entry, number=number) if isinstance(entry, OPERATIONS) else entry)  # type: ignore[arg-type]
    return History(entries)


def written(history: History) -> str:
    sink = io.StringIO()
    write_history(history, sink)
    return sink.getvalue()


def lines_of(text: str) -> list[str]:
    return list(io.StringIO(text))


@given(histories())
def test_what_is_written_is_read(history: History) -> None:
    assert read_history(lines_of(written(history))).entries == history.entries


@given(histories(), st.data())
def test_a_history_that_is_cut_off_anywhere_is_read_up_to_there(history: History, data: st.DataObject) -> None:
    text = written(history)
    cut = data.draw(st.integers(0, len(text)))
    read = read_history(lines_of(text[:cut])).entries
    assert len(read) <= len(history.entries)
    for entry in read:
        is_whole = entry in history.entries
        is_begun = isinstance(entry, OPERATIONS) and entry.completion == NEVER_RETURNED
        assert is_whole or is_begun


def test_every_operation_may_end_in_every_way_it_can_and_no_other() -> None:
    assert sorted(COMPLETIONS_OF) == sorted(kind.__name__ for kind in OPERATIONS)
    assert {end for ends in COMPLETIONS_OF.values() for end in ends} == set(COMPLETIONS)


def test_an_operation_without_an_end_is_unknown() -> None:
    sink = io.StringIO()
    writer = HistoryWriter(sink)
    send = Send("p", 1, Moment(5, 7), "orders", "a", "ann", 0)
    writer.invoked(send)
    (read,) = read_history(lines_of(sink.getvalue())).of(Send)
    assert read == send
    assert outcome_of(read) is Outcome.UNKNOWN


def test_each_entry_is_a_line_as_soon_as_it_is_told() -> None:
    sink = io.StringIO()
    writer = HistoryWriter(sink)
    writer.invoked(Send("p", 1, Moment(5, 7), "orders", "a\nb", "ann", 0))
    assert json.loads(sink.getvalue())["invoked"]["value"] == "a\nb"
    assert sink.getvalue().count("\n") == 1


def test_entries_of_several_processes_are_read_in_the_order_of_time() -> None:
    story = Story()
    story.send("a", 0)
    story.poll({0: "a"})
    story.send("b", 1)
    first, second, third = ([entry] for entry in story.entries)
    texts = [written(History(each)) for each in (third, first, second)]
    assert read_history(lines_of("".join(texts))).entries == tuple(sorted(story.entries, key=began))


SEND = (
    '{"invoked":{"is":"Send","process":"p","number":1,"invoked":[1,2],'
    '"topic":"t","value":"a","producer":"x","sequence":0}}'
)


@pytest.mark.parametrize(
    ("lines", "cause"),
    [
        (["nonsense"], "line 1 of the history"),
        (["{}"], "neither the beginning of an operation, nor its end, nor an event"),
        ([SEND, SEND], "line 2 of the history: p began its operation 1 twice"),
        (['{"completed":["p",1],"as":{"is":"Done","at":[1,2]}}'], "p never began its operation 1"),
        ([SEND, '{"completed":["p",1],"as":{"is":"Done","at":[1,2]}}'], "Done is no end of Send"),
        (['{"happened":{"is":"Note","at":[1],"text":"x"}}'], "not a Moment"),
        (['{"happened":{"is":"Note","at":[1,2],"text":7}}'], "7 is not a str"),
        (['{"happened":{"is":"Note","at":[1,2],"colour":"red"}}'], "Note has no colour"),
        (['{"happened":{"is":"Note","at":[1,2]}}'], "not a whole Note"),
        (['{"happened":{"is":"Send"}}'], "not a whole Send"),
        (['{"invoked":{"is":"Note","at":[1,2],"text":"x"}}'], "Note is no operation"),
        (['{"happened":{"is":"Rumour"}}'], "neither an entry nor a completion"),
    ],
)
def test_what_no_writer_wrote_is_refused_with_its_line(lines: list[str], cause: str) -> None:
    with pytest.raises(HistoryDamaged, match=cause):
        read_history(f"{line}\n" for line in lines)


def test_operations_are_counted_by_how_they_ended() -> None:
    story = Story()
    story.send("a", 0)
    story.send("b")
    story.refused("c")
    story.poll({})
    counts = story.history.counts
    assert counts["Send"] == {Outcome.OK: 1, Outcome.FAIL: 1, Outcome.UNKNOWN: 1}
    assert counts["Poll"] == {Outcome.OK: 1, Outcome.FAIL: 0, Outcome.UNKNOWN: 0}


def test_an_operation_that_has_ended_is_not_told_as_one_that_begins() -> None:
    story = Story()
    story.poll({})
    (poll,) = story.entries
    assert isinstance(poll, OPERATIONS)
    assert isinstance(poll.completion, Polled | Done)
    with pytest.raises(AssertionError):
        HistoryWriter(io.StringIO()).invoked(poll)
