"""What `lograft produce` makes of lines: records, or an error that names the line."""

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lograft.cli.records import input_lines as record_lines
from lograft.cli.records.input_lines import Lines, Source, Sources, read_lines, read_whole
from lograft.cli.records.json_input import JsonLineForm, JsonRecordForm
from lograft.cli.records.produce_run import Sending
from lograft.cli.records.rate_limit import Pace, paced, read_rate
from lograft.cli.records.record_output import json_lines
from lograft.cli.records.text_input import InputColumns, LineForm, RecordForm
from lograft.clients.errors import BatchTooLarge, BufferFull, DeliveryTimedOut, LograftError
from lograft.storage.batch.codec import Record

NOW_MS = 1_767_225_600_000


class Slow(io.BytesIO):
    """Gives a few bytes at a time, as a pipe may."""

    def read1(self, size: int | None = -1, /) -> bytes:
        return super().read1(3)


# -- lines


@pytest.mark.parametrize("file", [io.BytesIO, Slow])
def test_a_line_is_a_record_whatever_ends_it(file: type[io.BytesIO]) -> None:
    pieces = list(read_lines(Source(file(b"a\r\nb\n\nsplit\r\nnext\n\rc\r"))))
    assert [line for piece in pieces for line in piece.content] == [b"a", b"b", b"", b"split", b"next", b"\rc\r"]
    numbers = [number for piece in pieces for number in range(piece.first, piece.first + len(piece.content))]
    assert numbers == [1, 2, 3, 4, 5, 6]


def test_what_has_come_is_not_kept_waiting_for_more() -> None:
    pieces = read_lines(Source(Slow(b"a\nb\nc\n")))
    assert next(pieces).content == [b"a"]


def test_a_line_that_is_too_long_is_named_before_it_fills_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_lines, "LONGEST_LINE_BYTES", 10)
    file = Slow(b"short\n" + b"x" * 100)
    pieces = read_lines(Source(file, "big.txt"))
    assert next(pieces).content == [b"short"]
    with pytest.raises(click.ClickException, match=r"line 2 of big\.txt is longer than 10 bytes"):
        next(pieces)
    assert file.tell() < 25


def test_a_whole_file_is_one_record_unless_it_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [piece.content for piece in read_whole(Source(io.BytesIO(b"a\nb\r\n")))] == [[b"a\nb\r\n"]]
    monkeypatch.setattr(record_lines, "MAX_RECORD_BYTES", 4)
    with pytest.raises(click.ClickException, match=r"cat\.png is longer than 4"):
        list(read_whole(Source(io.BytesIO(b"12345"), "cat.png")))


def test_files_follow_one_another_and_how_much_was_read_is_known(tmp_path: Path) -> None:
    for name, content in (("a", b"1\n2\n"), ("b", b"3\n4\n")):
        (tmp_path / name).write_bytes(content)
    sources = Sources([str(tmp_path / "a"), str(tmp_path / "b")], None)
    assert sources.share == 0
    found = [
        (lines.source.place(lines.first), lines.content, sources.share) for lines in sources.lines(are_whole=False)
    ]
    assert found == [
        (f"line 1 of {tmp_path}/a", [b"1", b"2"], 0.5),
        (f"line 1 of {tmp_path}/b", [b"3", b"4"], 1.0),
    ]
    assert Sources(["-"], io.BytesIO(b"x")).share is None


# -- what they mean


def columns(form: RecordForm, *lines: bytes) -> list[InputColumns]:
    return list(form.columns(Lines(Source(io.BytesIO()), 5, list(lines)), NOW_MS))


def before_bad(form: RecordForm, *lines: bytes) -> tuple[list[bytes | None], str]:
    """The values before the line that is bad, and what is said of that."""
    found: list[bytes | None] = []
    made: Iterator[InputColumns] = form.columns(Lines(Source(io.BytesIO(), "f"), 5, list(lines)), NOW_MS)
    try:
        for each in made:
            found += each.values
    except click.ClickException as error:
        return found, error.message
    raise AssertionError("no line was bad")


def test_lines_are_values_with_what_goes_with_all_of_them() -> None:
    assert columns(LineForm(), b"a", b"b") == [InputColumns(range(5, 7), [b"a", b"b"])]
    pairs = [("h", b"1")]
    assert columns(LineForm(key=b"k", null_value=b"", headers=pairs, partition=3), b"a", b"") == [
        InputColumns(range(5, 7), [b"a", None], [b"k", b"k"], None, [pairs, pairs], 3)
    ]
    assert columns(LineForm(is_tombstone=True), b"a") == [InputColumns(range(5, 6), [None], [b"a"])]


def test_a_line_is_split_at_the_first_separator() -> None:
    (found,) = columns(LineForm(key_separator=b"::", null_value=b"-"), b"a::b::c", b"::", b"k::-")
    assert (found.keys, found.values) == ([b"a", b"", b"k"], [b"b::c", b"", None])
    values, message = before_bad(LineForm(key_separator=b"\t"), b"a\tb", b"nothing", b"c\td")
    assert values == [b"b"]
    assert message == "line 6 of f has no '\\t' between a key and a value"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b'{"id": "x"}', b"x"),
        (b'{"id": 5}', b"5"),
        (b'{"id": [1, 2]}', b"[1,2]"),
        (b'{"id": "\\ud800"}', b"\xed\xa0\x80"),
        (b'{"id": null}', None),
    ],
)
def test_keys_out_of_json(line: bytes, expected: bytes | None) -> None:
    (found,) = columns(JsonLineForm(key_field="id"), b'{"id": "other"}', line)
    assert (found.keys, found.values) == ((b"other", expected), (b'{"id": "other"}', line))


@pytest.mark.parametrize(("text", "expected"), [("1767225600001", 1), ('"2026-01-01T00:00:00.002Z"', 2), ("null", 0)])
def test_times_out_of_json(text: str, expected: int) -> None:
    line = b'{"at": %s}' % text.encode()
    (found,) = columns(JsonLineForm(timestamp_field="at"), line, b'{"at": 7}')
    assert found.timestamps == [NOW_MS + expected, 7]


@pytest.mark.parametrize(
    ("form", "line", "expected"),
    [
        (JsonLineForm(key_field="id"), b"not json", "line 6 of f is not JSON: Expecting value, at character 1"),
        (JsonLineForm(key_field="id"), b'{"idd": 1}', "line 6 of f has no field 'id'"),
        (JsonLineForm(key_field="id"), b"[1]", "line 6 of f is not a JSON object"),
        (JsonLineForm(key_field="id"), b"[" * 100_000, "line 6 of f is too deeply nested"),
        (JsonLineForm(timestamp_field="at"), b'{"at": "earliest"}', "line 6 of f has an invalid at 'earliest'"),
        (JsonLineForm(timestamp_field="at"), b'{"at": -1}', "line 6 of f has an invalid at -1"),
        (JsonLineForm(timestamp_field="at"), b'{"at": true}', "line 6 of f has an invalid at True"),
        (JsonRecordForm(3), b"{}", "line 6 of f has no value"),
        (JsonRecordForm(3), b'{"value": "a", "keys": 1}', "line 6 of f has an unknown field 'keys'"),
        (JsonRecordForm(3), b'{"value": "a", "partition": 3}', "line 6 of f has partition 3, but the topic has 0 to 2"),
        (JsonRecordForm(3), b'{"value": "a", "partition": true}', "has partition True"),
        (JsonRecordForm(3), b'{"value": {"base64": "?"}}', "has invalid base64 '?'"),
        (JsonRecordForm(3), b'{"value": {"base64": 5}}', "has invalid base64 5"),
        (JsonRecordForm(3), b'{"value": "", "headers": "a=b"}', "has invalid headers 'a=b'"),
        (JsonRecordForm(3), b'{"value": "", "headers": [{"value": "b"}]}', "invalid headers"),
        (JsonRecordForm(3), b'{"value": "", "headers": {"\\ud800": "b"}}', "invalid headers"),
        (JsonRecordForm(3), b'{"value": "", "timestamp": "now"}', "has an invalid timestamp 'now'"),
    ],
)
def test_a_bad_line_is_named_after_those_before_it(form: RecordForm, line: bytes, expected: str) -> None:
    good = b'{"value": "good", "id": 1}' if isinstance(form, JsonLineForm) else b'{"value": "good"}'
    values, message = before_bad(form, good, line, good)
    assert values == [b"good" if isinstance(form, JsonRecordForm) else good]
    assert expected in message


def test_a_record_as_a_person_would_write_it() -> None:
    line = b'{"value": {"a": [1, "\xc3\xa4"]}, "key": 7, "headers": {"h": "1", "n": null}}'
    (found,) = columns(JsonRecordForm(1, headers=[("all", b"x")]), line)
    assert found == InputColumns(
        [5], ('{"a":[1,"ä"]}'.encode(),), (b"7",), None, ((("h", b"1"), ("n", None), ("all", b"x")),), None
    )


def test_records_go_to_their_partitions_in_order_unless_one_is_given() -> None:
    lines = [
        json.dumps({"value": f"{n}", "partition": partition}).encode() for n, partition in enumerate([1, 0, 1, None])
    ]
    by_partition = {each.partition: (each.numbers, each.values) for each in columns(JsonRecordForm(2), *lines)}
    assert by_partition == {1: ([5, 7], (b"0", b"2")), 0: ([6], (b"1",)), None: ([8], (b"3",))}
    (found,) = columns(JsonRecordForm(9, partition=8), *lines)
    assert (found.partition, found.numbers) == (8, [5, 6, 7, 8])


CONTENT = st.none() | st.binary(max_size=20) | st.text(max_size=20).map(str.encode)


@given(CONTENT, CONTENT, st.lists(st.tuples(st.text(max_size=5), CONTENT), max_size=3), st.integers(0, 2**40))
def test_what_consume_writes_produce_reads(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]], timestamp: int
) -> None:
    record = Record("t", 1, 7, timestamp, key, value, tuple(headers))
    (found,) = columns(JsonRecordForm(2), *json_lines([record]).splitlines()[:1])
    assert found.values == (value,)
    assert (found.keys or (None,)) == (key,)
    assert (found.headers or ((),)) == (tuple(headers),)
    assert (found.timestamps, found.partition) == ([timestamp], 1)


# -- what becomes of them


class Sent:
    """What was sent together, and is settled when the test says so: `errors`, by index."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._callback: Callable[[Sent], object] = lambda _: None
        self.errors: dict[int, LograftError] = {}

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> "Iterator[Sent]":
        for index in range(self._count):
            one = Sent(1)
            one.errors = {0: self.errors[index]} if index in self.errors else {}
            yield one

    def exception(self) -> LograftError | None:
        return next(iter(self.errors.values()), None)

    def add_done_callback(self, callback: "Callable[[Sent], object]") -> None:
        self._callback = callback

    def settle(self, errors: dict[int, LograftError]) -> None:
        self.errors = errors
        self._callback(self)


class FakeProducer:
    def __init__(self, *answers: "Sent | LograftError") -> None:
        self._answers = list(answers)

    def send_many(self, topic: str, values: list[bytes], **_: object) -> Sent:
        answer = self._answers.pop(0)
        if isinstance(answer, LograftError):
            raise answer
        assert len(values) == len(answer)
        return answer


def sending(*answers: "Sent | LograftError") -> Sending:
    return Sending(FakeProducer(*answers), "t")  # type: ignore[arg-type]


@pytest.mark.parametrize("is_first_last", [False, True])
def test_the_first_line_that_was_not_stored_is_told_whichever_fails_first(
    is_first_last: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = Sent(3), Sent(2)
    made = sending(first, second)
    for name, start, count in (("a", 10, 3), ("b", 1, 2)):
        made.send(Source(io.BytesIO(), name), InputColumns(range(start, start + count), [b"x"] * count))
    settling = [(first, {2: BatchTooLarge("large")}), (second, dict.fromkeys((0, 1), DeliveryTimedOut("late")))]
    for sent, errors in reversed(settling) if is_first_last else settling:
        sent.settle(errors)  # type: ignore[arg-type]
    with pytest.raises(BatchTooLarge):
        made.finish()
    assert capsys.readouterr().err == (
        "2 records written to t\n3 not written, or not confirmed; the first is line 12 of a\n"
    )


def test_what_was_taken_before_the_buffer_was_full_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    taken = Sent(2)
    made = sending(BufferFull("full", taken=taken), BufferFull("full"))
    for _ in range(2):
        with pytest.raises(BufferFull):
            made.send(Source(io.BytesIO()), InputColumns(range(1, 4), [b"x"] * 3))
    taken.settle({})
    made.finish()
    assert capsys.readouterr().err == "2 records written to t\n"


# -- so many a second


def test_rates_as_people_type_them() -> None:
    context, param = click.Context(click.Command("x")), click.Option(["--rate"])
    assert [read_rate(context, param, text) for text in ("10", "10/s", "30/m", "0.5/s")] == [10, 10, 0.5, 0.5]


def test_lines_go_at_their_pace_and_all_of_them() -> None:
    now, sent = 0.0, []

    def sleep(seconds: float) -> None:
        nonlocal now
        assert seconds > 0
        now += seconds

    source = Source(io.BytesIO())
    lines = Lines(source, 1, [b"%d" % number for number in range(1000)])
    for piece in paced(iter([lines]), 100, lambda: now, sleep):
        sent += [(piece.first + index, line, now) for index, line in enumerate(piece.content)]
    assert [(number, line) for number, line, _ in sent] == [(n + 1, b"%d" % n) for n in range(1000)]
    assert all(moment == pytest.approx(index / 100, abs=0.051) for index, (_, _, moment) in enumerate(sent))


def test_who_was_slow_does_not_rush_afterwards() -> None:
    pace = Pace(100, 0.0)
    assert pace.take(1000, 60.0) == 5
