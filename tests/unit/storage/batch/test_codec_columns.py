"""The columns payload, to the byte: golden vectors for every combination of sections, and what is refused."""

import struct
from pathlib import Path
from typing import Any

import pytest

from lograft.storage.batch.codec import decode_arrow, decode_columns, encode_batch, validate_batch, validate_deep
from lograft.storage.batch.compression import Compression, compress, decompress
from lograft.storage.batch.header import pack_header, parse_header
from lograft.storage.errors import BadRecord, BadRecordCount, BadSection

DOCUMENT = Path(__file__).parents[4] / "docs" / "format.md"

Sections = dict[int, str]  # id to content in hex


def payload_of(batch: bytes) -> bytes:
    return batch[64 : len(batch) - batch[61]]


def sections_of(batch: bytes) -> Sections:
    """An independent reading of the section table, straight from docs/format.md."""
    payload = payload_of(batch)
    count, zero = struct.unpack_from("<II", payload)
    assert zero == 0
    found = {}
    for number in range(count):
        section, flags, start, length = struct.unpack_from("<HHII", payload, 8 + 12 * number)
        assert flags == 0
        assert start % 8 == 0
        found[section] = payload[start : start + length].hex(" ")
    return found


def with_payload(batch: bytes, payload: bytes, **changes: int) -> bytes:
    """The batch around another payload, with length, pad and CRC to match."""
    fields = parse_header(batch)._asdict() | changes
    del fields["batch_length"], fields["crc"]
    pad = -len(payload) % 8
    body = bytes((pad, 0, 0)) + payload + bytes(pad)
    return pack_header(**fields, body=[body]) + body


def laid_out(sections: list[tuple[int, bytes]], alignment: int = 8) -> bytes:
    end = 8 + 12 * len(sections)
    table, contents = struct.pack("<II", len(sections), 0), b""
    for section, content in sections:
        gap = -end % alignment
        table += struct.pack("<HHII", section, 0, end + gap, len(content))
        contents += bytes(gap) + content
        end += gap + len(content)
    return table + contents


def i32(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}i", *numbers)


# -- golden vectors

ONE, TWO = "00 00 00 00 01 00 00 00", "00 00 00 00 01 00 00 00 02 00 00 00"

GOLDEN: dict[str, tuple[dict[str, Any], Sections]] = {
    "one value": ({"values": [b"v"]}, {6: ONE, 8: "76"}),
    "an empty value": ({"values": [b""]}, {6: "00 00 00 00 00 00 00 00", 8: ""}),
    "two values": ({"values": [b"v", b"w"]}, {6: TWO, 8: "76 77"}),
    "timestamps": (
        {"values": [b"v", b"w"], "timestamps": [5, 4]},
        {1: "00 00 00 00 00 00 00 00 ff ff ff ff ff ff ff ff", 6: TWO, 8: "76 77"},
    ),
    "equal timestamps are left out": ({"values": [b"v", b"w"], "timestamps": [4, 4]}, {6: TWO, 8: "76 77"}),
    "sparse offsets": (
        {"values": [b"v", b"w"], "offset_deltas": [1, 260]},
        {2: "01 00 00 00 04 01 00 00", 6: TWO, 8: "76 77"},
    ),
    "keys": ({"values": [b"v"], "keys": [b"k"]}, {3: ONE, 5: "6b", 6: ONE, 8: "76"}),
    "keys of which some are null": (
        {"values": [b"v", b"w"], "keys": [None, b"k"]},
        {3: "00 00 00 00 00 00 00 00 01 00 00 00", 4: "02", 5: "6b", 6: TWO, 8: "76 77"},
    ),
    "null keys are left out": ({"values": [b"v"], "keys": [None]}, {6: ONE, 8: "76"}),
    "empty keys are not null": (
        {"values": [b"v"], "keys": [b""]},
        {3: "00 00 00 00 00 00 00 00", 5: "", 6: ONE, 8: "76"},
    ),
    "values of which some are null": (
        {"values": [b"v", None]},
        {6: "00 00 00 00 01 00 00 00 01 00 00 00", 7: "01", 8: "76"},
    ),
    "null values are never left out": ({"values": [None]}, {6: "00 00 00 00 00 00 00 00", 7: "00", 8: ""}),
    "nine values need two bytes of validity": (
        {"values": [None, *[b""] * 8]},
        {6: " ".join(["00 00 00 00"] * 10), 7: "fe 01", 8: ""},
    ),
    "headers": (
        {"values": [b"v"], "headers": [[("n", b"x")]]},
        {6: ONE, 8: "76", 9: ONE, 10: ONE, 11: "6e", 12: ONE, 14: "78"},
    ),
    "headers of some records, some of them null": (
        {"values": [b"v", b"w"], "headers": [[], [("n", None), ("é", b"x")]]},
        {
            6: TWO,
            8: "76 77",
            9: "00 00 00 00 00 00 00 00 02 00 00 00",
            10: "00 00 00 00 01 00 00 00 03 00 00 00",
            11: "6e c3 a9",
            12: "00 00 00 00 00 00 00 00 01 00 00 00",
            13: "02",
            14: "78",
        },
    ),
    "headers all of them null": (
        {"values": [b"v"], "headers": [[("n", None)]]},
        {6: ONE, 8: "76", 9: ONE, 10: ONE, 11: "6e"},
    ),
    "no headers are left out": ({"values": [b"v"], "headers": [[]]}, {6: ONE, 8: "76"}),
    "no records": ({"values": [], "last_offset_delta": 3}, {}),
    "everything": (
        {
            "values": [b"v", None],
            "keys": [None, b"k"],
            "timestamps": [4, 5],
            "offset_deltas": [0, 2],
            "headers": [[("n", b"x"), ("n", None)], []],
        },
        {
            1: "00 00 00 00 00 00 00 00 01 00 00 00 00 00 00 00",
            2: "00 00 00 00 02 00 00 00",
            3: "00 00 00 00 00 00 00 00 01 00 00 00",
            4: "02",
            5: "6b",
            6: "00 00 00 00 01 00 00 00 01 00 00 00",
            7: "01",
            8: "76",
            9: "00 00 00 00 02 00 00 00 02 00 00 00",
            10: "00 00 00 00 01 00 00 00 02 00 00 00",
            11: "6e 6e",
            12: "00 00 00 00 01 00 00 00 01 00 00 00",
            13: "01",
            14: "78",
        },
    ),
}


@pytest.mark.parametrize(("arguments", "sections"), list(GOLDEN.values()), ids=list(GOLDEN))
def test_columns_have_the_documented_sections(arguments: dict[str, Any], sections: Sections) -> None:
    arguments = {"timestamps": 4} | arguments
    batch = encode_batch(**arguments)
    assert sections_of(batch) == sections
    assert len(batch) % 8 == 0
    assert payload_of(batch) == laid_out([(number, bytes.fromhex(content)) for number, content in sections.items()])
    validate_deep(batch)
    decoded = decode_columns(batch)
    count = len(arguments["values"])
    assert list(decoded.values) == arguments["values"]
    assert list(decoded.keys) == arguments.get("keys", [None] * count)
    assert [list(pairs) for pairs in decoded.headers] == arguments.get("headers", [[]] * count)


def test_the_example_of_the_document_is_what_we_write() -> None:
    example = DOCUMENT.read_text().split("```hex\n")[1].split("```")[0]
    written = b""
    for line in example.splitlines():
        position, content = line.split(";")[0].split(maxsplit=1)
        assert int(position) == len(written)
        written += bytes.fromhex(content)
    batch = encode_batch([b"hi", None], keys=[None, b"k"], timestamps=[1000, 1005], base_offset=7, leader_epoch=2)
    assert written == batch


def test_compression_covers_the_payload_and_neither_the_three_bytes_nor_the_pad() -> None:
    plain = encode_batch([b"v" * 100] * 50, timestamps=4)
    for compression in Compression:
        batch = encode_batch([b"v" * 100] * 50, timestamps=4, compression=compression)
        assert len(batch) % 8 == 0
        assert batch[62:64] == b"\x00\x00"
        stored = payload_of(batch)
        assert decompress(compression, stored) == payload_of(plain)
        assert batch[64 + len(stored) :] == bytes(batch[61])


# -- what is accepted without being written


def test_alignment_is_not_a_rule_of_validity() -> None:
    aligned = encode_batch([b"v", None], keys=[None, b"k"], timestamps=[4, 5], headers=[[("n", b"x")], []])
    contents = [(number, bytes.fromhex(content)) for number, content in sections_of(aligned).items()]
    for alignment in (1, 2, 3, 5, 7):
        batch = with_payload(aligned, laid_out(contents, alignment))
        validate_deep(batch)
        assert decode_columns(batch) == decode_columns(aligned)
        assert decode_arrow(batch).equals(decode_arrow(aligned))


def test_sections_that_could_be_left_out_are_accepted() -> None:
    lean = encode_batch([b"v", b"w"], timestamps=4)
    contents = [
        (1, bytes(16)),
        (2, i32(0, 1)),
        (3, i32(0, 0, 0)),
        (4, b"\x00"),
        (5, b""),
        (6, i32(0, 1, 2)),
        (7, b"\x03"),
        (8, b"vw"),
        (9, i32(0, 0, 0)),
        (10, i32(0)),
        (11, b""),
        (12, i32(0)),
        (13, b""),
        (14, b""),
    ]
    batch = with_payload(lean, laid_out(contents))
    validate_deep(batch)
    assert [list(column) for column in decode_columns(batch)] == [list(column) for column in decode_columns(lean)]
    assert decode_arrow(batch).equals(decode_arrow(lean))


def test_bytes_of_a_null_are_ignored() -> None:
    batch = with_payload(
        encode_batch([b"v", b"w"], timestamps=4), laid_out([(6, i32(0, 1, 2)), (7, b"\x02"), (8, b"vw")])
    )
    validate_deep(batch)
    assert decode_columns(batch).values == [None, b"w"]
    assert decode_arrow(batch).column("value").to_pylist() == [None, b"w"]


# -- what is refused, on append already when the table shows it

VALUES = [(6, i32(0, 1, 2)), (8, b"vw")]
HEADERS = [(9, i32(0, 1, 1)), (10, i32(0, 1)), (11, b"n")]


def table(*entries: tuple[int, int, int, int], count: int | None = None, zero: int = 0, tail: bytes = b"") -> bytes:
    packed = b"".join(struct.pack("<HHII", *entry) for entry in entries)
    return struct.pack("<II", len(entries) if count is None else count, zero) + packed + tail


BAD_TABLES: dict[str, tuple[bytes, type[Exception]]] = {
    "no table": (b"", BadSection),
    "table header cut short": (bytes(7), BadSection),
    "table cut short": (table((6, 0, 32, 12), count=2), BadSection),
    "count of sections beyond reason": (table(count=2**32 - 1), BadSection),
    "reserved word set": (table((6, 0, 32, 12), (8, 0, 44, 2), zero=1, tail=i32(0, 1, 2) + b"vw"), BadSection),
    "no sections": (table(), BadSection),
    "no value bytes": (laid_out(VALUES[:1]), BadSection),
    "no value offsets": (laid_out(VALUES[1:]), BadSection),
    "unknown section 0": (laid_out([(0, b""), *VALUES]), BadSection),
    "unknown section 15": (laid_out([*VALUES, (15, b"")]), BadSection),
    "unknown section 65535": (laid_out([*VALUES, (65535, b"")]), BadSection),
    "flags set": (table((6, 1, 32, 12), (8, 0, 44, 2), tail=i32(0, 1, 2) + b"vw"), BadSection),
    "doubled section": (laid_out([VALUES[0], *VALUES]), BadSection),
    "sections out of order": (laid_out(VALUES[::-1]), BadSection),
    "section inside the table": (table((6, 0, 24, 12), (8, 0, 44, 2), tail=i32(0, 1, 2) + b"vw"), BadSection),
    "overlapping sections": (table((6, 0, 32, 12), (8, 0, 43, 3), tail=i32(0, 1, 2) + b"vw"), BadSection),
    "gap of eight bytes": (table((6, 0, 32, 12), (8, 0, 52, 2), tail=i32(0, 1, 2) + bytes(8) + b"vw"), BadSection),
    "section past the end": (table((6, 0, 32, 12), (8, 0, 44, 3), tail=i32(0, 1, 2) + b"vw"), BadSection),
    "section far past the end": (table((6, 0, 32, 12), (8, 0, 44, 2**32 - 1), tail=i32(0, 1, 2) + b"vw"), BadSection),
    "bytes after the last section": (laid_out(VALUES) + b"x", BadSection),
    "value offsets for one record": (laid_out([(6, i32(0, 1)), (8, b"v")]), BadRecordCount),
    "value offsets of half a number": (laid_out([(6, i32(0, 1, 2)[:-2]), (8, b"vw")]), BadRecordCount),
    "timestamps for one record": (laid_out([(1, bytes(8)), *VALUES]), BadSection),
    "offset deltas for three records": (laid_out([(2, i32(0, 1, 2)), *VALUES]), BadSection),
    "key offsets for one record": (laid_out([(3, i32(0, 0)), (5, b""), *VALUES]), BadSection),
    "key offsets without bytes": (laid_out([(3, i32(0, 0, 0)), *VALUES]), BadSection),
    "key bytes without offsets": (laid_out([(5, b"k"), *VALUES]), BadSection),
    "key validity alone": (laid_out([(4, b"\x00"), *VALUES]), BadSection),
    "key validity too long": (laid_out([(3, i32(0, 0, 0)), (4, bytes(2)), (5, b""), *VALUES]), BadSection),
    "value validity empty": (laid_out([VALUES[0], (7, b""), VALUES[1]]), BadSection),
    "header offsets alone": (laid_out([*VALUES, HEADERS[0]]), BadSection),
    "headers without keys": (laid_out([*VALUES, *HEADERS[:2]]), BadSection),
    "header keys without lists": (laid_out([*VALUES, *HEADERS[1:]]), BadSection),
    "header key offsets empty": (laid_out([*VALUES, HEADERS[0], (10, b""), HEADERS[2]]), BadSection),
    "header values without keys": (laid_out([*VALUES, (12, i32(0, 1)), (14, b"x")]), BadSection),
    "header values without bytes": (laid_out([*VALUES, *HEADERS, (12, i32(0, 1))]), BadSection),
    "header values for two headers": (laid_out([*VALUES, *HEADERS, (12, i32(0, 1, 1)), (14, b"x")]), BadSection),
    "header validity alone": (laid_out([*VALUES, *HEADERS, (13, b"\x01")]), BadSection),
    "header validity too long": (
        laid_out([*VALUES, *HEADERS, (12, i32(0, 1)), (13, b"\x01\x00"), (14, b"x")]),
        BadSection,
    ),
}

BAD_CONTENTS: dict[str, bytes] = {
    "value offsets fall": laid_out([(6, i32(0, 3, 2)), (8, b"vw")]),
    "value offsets do not begin at 0": laid_out([(6, i32(1, 1, 2)), (8, b"vw")]),
    "value offsets are negative": laid_out([(6, i32(0, -1, 2)), (8, b"vw")]),
    "value offsets end early": laid_out([(6, i32(0, 1, 1)), (8, b"vw")]),
    "value offsets end late": laid_out([(6, i32(0, 1, 3)), (8, b"vw")]),
    "key offsets fall": laid_out([(3, i32(0, 2, 1)), (5, b"k"), *VALUES]),
    "bits of no record are set": laid_out([VALUES[0], (7, b"\x07"), VALUES[1]]),
    "offset deltas are equal": laid_out([(2, i32(1, 1)), *VALUES]),
    "offset deltas fall": laid_out([(2, i32(1, 0)), *VALUES]),
    "offset deltas are negative": laid_out([(2, i32(-1, 0)), *VALUES]),
    "offset deltas leave the batch": laid_out([(2, i32(0, 2)), *VALUES]),
    "a timestamp is too large": laid_out([(1, struct.pack("<2q", 0, 2**62)), *VALUES]),
    "a timestamp is too small": laid_out([(1, struct.pack("<2q", 0, -(2**63))), *VALUES]),
    "header lists leave the headers": laid_out([*VALUES, (9, i32(0, 1, 2)), *HEADERS[1:]]),
    "header lists fall": laid_out([*VALUES, (9, i32(0, 2, 1)), *HEADERS[1:]]),
    "header keys leave their bytes": laid_out([*VALUES, HEADERS[0], (10, i32(0, 2)), HEADERS[2]]),
    "a header key is not UTF-8": laid_out([*VALUES, *HEADERS[:2], (11, b"\xff")]),
    "a character spans two header keys": laid_out([*VALUES, (9, i32(0, 1, 2)), (10, i32(0, 1, 2)), (11, "é".encode())]),
    "header values leave their bytes": laid_out([*VALUES, *HEADERS, (12, i32(0, 2)), (14, b"x")]),
    "header bits of no header are set": laid_out([*VALUES, *HEADERS, (12, i32(0, 1)), (13, b"\x03"), (14, b"x")]),
}

PLAIN = encode_batch([b"v", b"w"], timestamps=4)


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.LZ4])
@pytest.mark.parametrize(("payload", "error"), list(BAD_TABLES.values()), ids=list(BAD_TABLES))
def test_a_section_table_that_cannot_be_right_is_refused_by_name(
    payload: bytes, error: type[Exception], compression: Compression
) -> None:
    batch = with_payload(PLAIN, compress(compression, payload), attributes=int(compression))
    if compression is Compression.NONE:
        with pytest.raises(error):
            validate_batch(batch)
    else:
        validate_batch(batch)  # what is compressed is not opened on append
    for refuse in (validate_deep, decode_columns, decode_arrow):
        with pytest.raises(error):
            refuse(batch)


@pytest.mark.parametrize("payload", list(BAD_CONTENTS.values()), ids=list(BAD_CONTENTS))
def test_contents_that_cannot_be_right_are_refused_by_every_decoder(payload: bytes) -> None:
    batch = with_payload(PLAIN, payload)
    validate_batch(batch)
    for refuse in (validate_deep, decode_columns, decode_arrow):
        with pytest.raises(BadRecord):
            refuse(batch)


def test_a_batch_of_no_records_has_no_sections() -> None:
    with pytest.raises(BadRecordCount):
        validate_batch(with_payload(PLAIN, laid_out(VALUES), record_count=0))


def test_a_record_count_beyond_reason_is_refused_before_memory_is_spent() -> None:
    batch = with_payload(PLAIN, laid_out(VALUES), record_count=2**31 - 1, last_offset_delta=2**31 - 1)
    for refuse in (validate_batch, validate_deep, decode_columns, decode_arrow):
        with pytest.raises(BadRecordCount):
            refuse(batch)
