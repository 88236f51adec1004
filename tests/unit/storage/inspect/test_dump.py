"""Looking into files that may be damaged: what is told of them, and that nothing in them stops the telling."""

import struct
from dataclasses import dataclass

import pytest

from lograft.storage.batch.codec import MAGIC_COLUMNS, MAGIC_ROWS, Compression, encode_batch
from lograft.storage.batch.header import checksum, parse_header
from lograft.storage.files.sealed_file import seal
from lograft.storage.files.segment_index import OFFSET_INDEX_KIND, TIME_INDEX_KIND, SegmentIndex
from lograft.storage.inspect.dump import (
    Crc,
    DumpedBatch,
    DumpedSegment,
    Problem,
    SealedDocument,
    SegmentTotals,
    check_against_segment,
    dump_file,
    is_index,
)
from lograft.storage.log.recovery import PRODUCERS_KIND
from lograft.storage.state.checkpoint import Checkpoint, encode_epochs
from lograft.storage.state.epoch_cache import EpochCache, EpochEntry
from lograft.storage.state.producer_state import ProducerState

TIME_MS = 1_767_225_600_000
LAYOUTS = pytest.mark.parametrize("magic", [MAGIC_ROWS, MAGIC_COLUMNS])


@dataclass(frozen=True)
class InMemory:
    """A file as far as dumping one needs it."""

    content: bytes

    def read(self, position: int, size: int) -> bytes:
        return self.content[position : position + size]

    def size(self) -> int:
        return len(self.content)


def make_batches(count: int = 6, magic: int = MAGIC_COLUMNS) -> list[bytes]:
    return [
        encode_batch(
            [b"value %d" % (2 * i), b"value %d" % (2 * i + 1)],
            keys=[b"key", None],
            timestamps=[TIME_MS + 10 * i, TIME_MS + 10 * i + 5],
            magic=magic,
            base_offset=2 * i,
            leader_epoch=1 + i // 3,
        )
        for i in range(count)
    ]


def walk(content: bytes, *, deep: bool = False) -> tuple[list[DumpedBatch], list[Problem]]:
    """All batches, and all problems, those of batches included."""
    dump = dump_file(InMemory(content), "x.log", deep=deep)
    assert isinstance(dump, DumpedSegment)
    batches: list[DumpedBatch] = []
    problems: list[Problem] = []
    for item in dump.items:
        if isinstance(item, Problem):
            problems.append(item)
        else:
            batches.append(item)
            problems += item.problems
    return batches, problems


def document(content: bytes, name: str = "any name") -> SealedDocument:
    dump = dump_file(InMemory(content), name)
    assert isinstance(dump, SealedDocument)
    return dump


def causes(problems: list[Problem]) -> list[tuple[int, str]]:
    return [(problem.position, problem.cause) for problem in problems]


def sound_offsets(batches: list[DumpedBatch]) -> list[int]:
    return [batch.header.base_offset for batch in batches if batch.crc is Crc.OK]


# -- sound segments


@LAYOUTS
def test_a_sound_segment_lists_every_batch_and_no_problem(magic: int) -> None:
    parts = make_batches(magic=magic)
    batches, problems = walk(b"".join(parts))
    assert [batch.header for batch in batches] == [parse_header(part) for part in parts]
    assert [batch.position for batch in batches] == [sum(map(len, parts[:i])) for i in range(len(parts))]
    assert not problems


@LAYOUTS
@pytest.mark.parametrize("codec", list(Compression))
def test_deep_gives_the_records_whatever_layout_and_codec(magic: int, codec: Compression) -> None:
    part = encode_batch([b"a", None], keys=[None, b"k"], timestamps=[3, 9], magic=magic, compression=codec)
    batches, problems = walk(part, deep=True)
    assert not problems
    assert batches[0].records is not None
    assert [list(column) for column in batches[0].records] == [[0, 1], [3, 9], [None, b"k"], [b"a", None], [(), ()]]
    assert walk(part)[0][0].records is None


def test_totals_count_only_what_the_crc_vouches_for() -> None:
    parts = make_batches(4)
    content = bytearray(b"".join(parts))
    content[-1] ^= 1
    dump = dump_file(InMemory(bytes(content)), "x.log")
    assert isinstance(dump, DumpedSegment)
    totals = SegmentTotals()
    for item in dump.items:
        totals.add(item)
    assert (totals.batches, totals.invalid_batches, totals.records) == (4, 1, 6)
    assert (totals.first_offset, totals.last_offset) == (0, 5)


# -- damaged segments


@LAYOUTS
def test_a_flipped_bit_anywhere_is_found_at_its_batch_and_hides_no_other(magic: int) -> None:
    """All of a batch but its base offset, leader epoch and length's effect on others: the CRC or the header tells."""
    parts = make_batches(magic=magic)
    sound = b"".join(parts)
    start = sum(map(len, parts[:2]))
    for at in range(start + 8, start + len(parts[2])):
        if start + 12 <= at < start + 16:
            continue  # the leader epoch is under no CRC
        damaged = bytearray(sound)
        damaged[at] ^= 0x10
        batches, problems = walk(bytes(damaged))
        assert sound_offsets(batches) == [0, 2, 6, 8, 10], f"byte {at}"
        assert problems[0].position == start, f"byte {at}"


@pytest.mark.parametrize("length_change", [-64, -8, 8, 64, 400, 100_000])
def test_a_wrong_length_costs_only_its_own_batch(length_change: int) -> None:
    parts = make_batches()
    start = len(parts[0])
    content = bytearray(b"".join(parts))
    struct.pack_into(">i", content, start + 8, len(parts[1]) - 12 + length_change)
    batches, problems = walk(bytes(content))
    assert sound_offsets(batches) == [0, 4, 6, 8, 10]
    assert problems[0].position == start
    assert [batch.crc for batch in batches if batch.position == start] in ([Crc.BAD], [])


def test_two_damaged_batches_in_a_row_are_both_listed() -> None:
    parts = make_batches()
    content = bytearray(b"".join(parts))
    first, second = len(parts[0]), len(parts[0] + parts[1])
    content[first + 70] ^= 1
    content[second + 70] ^= 1
    batches, problems = walk(bytes(content))
    assert [batch.crc for batch in batches] == [Crc.OK, Crc.BAD, Crc.BAD, Crc.OK, Crc.OK, Crc.OK]
    assert causes(problems) == [(first, "BadCrc"), (second, "BadCrc")]


@pytest.mark.parametrize("size", [1, 60, 61, 5000, 1024 * 1024 + 17])
def test_garbage_between_batches_is_skipped_and_counted(size: int) -> None:
    parts = make_batches()
    garbage = bytes(i * 7 % 251 for i in range(size))
    start = len(parts[0] + parts[1])
    batches, problems = walk(b"".join([*parts[:2], garbage, *parts[2:]]))
    assert sound_offsets(batches) == [0, 2, 4, 6, 8, 10]
    assert sum(problem.skipped_bytes for problem in problems) == size
    assert problems[0].position == start


def test_a_batch_across_a_chunk_of_the_search_is_found() -> None:
    from lograft.storage.inspect.dump_segment import CHUNK_BYTES, find_sound_batch

    part = make_batches(1)[0]
    for shift in range(-70, 3):
        start = CHUNK_BYTES + shift
        content = b"\xff" * start + part
        assert find_sound_batch(InMemory(content), 0, len(content), len(content)) == start


def test_a_cut_anywhere_in_the_last_batch_is_a_torn_tail() -> None:
    parts = make_batches(3)
    content = b"".join(parts)
    start = len(parts[0] + parts[1])
    for end in range(start + 1, len(content)):
        batches, problems = walk(content[:end])
        assert sound_offsets(batches) == [0, 2]
        assert causes(problems) == [(start, "TornTail")], f"cut at {end}"


def test_a_tail_of_zeros_is_a_torn_tail() -> None:
    parts = make_batches(2)
    content = b"".join(parts)
    _, problems = walk(content + bytes(4096))
    assert causes(problems) == [(len(content), "TornTail")]
    assert problems[0].skipped_bytes == 4096


def test_garbage_at_the_end_is_said_to_reach_the_end() -> None:
    content = b"".join(make_batches(2))
    _, problems = walk(content + b"\x07" * 500)
    assert causes(problems) == [(len(content), "UnknownMagic")]
    assert problems[0].skipped_bytes == 500


def test_a_damaged_first_batch_does_not_hide_what_the_file_is() -> None:
    parts = make_batches(3)
    dump = dump_file(InMemory(b"\xff" * 100 + parts[1] + parts[2]), "any name")
    assert isinstance(dump, DumpedSegment)
    assert [type(item) for item in dump.items] == [Problem, DumpedBatch, DumpedBatch]


def test_offsets_that_fall_are_reported_once_and_the_walk_goes_on() -> None:
    parts = make_batches(3)
    batches, problems = walk(b"".join([parts[1], parts[0], parts[1], parts[2]]))
    assert sound_offsets(batches) == [2, 0, 2, 4]
    assert causes(problems) == [(len(parts[1]), "OffsetsFall")]


def test_epochs_that_fall_are_reported() -> None:
    parts = make_batches(4)  # the last has epoch 2
    late = encode_batch([b"v"], timestamps=TIME_MS, base_offset=100, leader_epoch=1)
    _, problems = walk(b"".join([*parts, late]))
    assert causes(problems) == [(sum(map(len, parts)), "EpochsFall")]


def test_a_right_crc_over_wrong_records_is_found_by_deep_alone() -> None:
    part = bytearray(encode_batch([b"a", b"b"], timestamps=[1, 2], magic=MAGIC_ROWS))
    part[-1] = 2  # the last record claims a header that is not there
    struct.pack_into(">I", part, 17, checksum(part, 21, len(part)))
    content = bytes(part)
    assert causes(walk(content)[1]) == []
    assert causes(walk(content, deep=True)[1]) == [(0, "BadRecord")]


def test_unknown_attribute_bits_are_reported_though_the_crc_is_right() -> None:
    part = bytearray(make_batches(1)[0])
    part[21] = 0x40
    struct.pack_into(">I", part, 17, checksum(part, 21, len(part)))
    batches, problems = walk(bytes(part))
    assert batches[0].crc is Crc.OK
    assert causes(problems) == [(0, "BadAttributes")]


# -- what a file is


def test_small_files_are_known_by_their_seal_whatever_their_name() -> None:
    index = SegmentIndex(0)
    offsets, times = index.encode()
    kinds = {
        "offset-index": offsets,
        "time-index": times,
        "producers": seal(PRODUCERS_KIND, ProducerState().encode()),
        "leader-epochs": encode_epochs(EpochCache()),
        "checkpoint": Checkpoint().encode(),
        "clean-shutdown": seal("lograft-clean-shutdown-1", b"broker_epoch 3\n"),
    }
    for kind, content in kinds.items():
        dump = document(content, "misleading.log")
        assert (dump.kind, dump.problems) == (kind, ())


def test_a_segment_that_ends_like_a_sealed_file_is_a_segment() -> None:
    sealed = Checkpoint().encode()
    content = encode_batch([b"v"], timestamps=1, magic=MAGIC_ROWS, headers=[[("h", sealed)]])
    assert content.endswith(sealed)
    assert isinstance(dump_file(InMemory(content), "checkpoint"), DumpedSegment)


def test_an_unknown_file_is_a_problem_that_shows_how_it_begins() -> None:
    dump = document(b"\x7fELF and so on")
    assert dump.kind == "unknown"
    assert "7f 45 4c 46" in dump.problems[0].message


def test_an_empty_file_may_be_a_new_segment_but_no_sealed_file() -> None:
    assert document(b"", "x.log").problems == ()
    assert document(b"", "00000000000000000000.index").problems[0].cause == "BrokenSeal"


# -- small files


def test_a_checkpoint_shows_each_of_its_offsets() -> None:
    dump = document(Checkpoint(1, 40, 20, 10, 15, 3, 30, 0, 1).encode())
    assert dict(dump.fields) == {
        "logStart": 1,
        "recoveryPoint": 40,
        "firstDirty": 20,
        "tombstonesRemovedBelow": 10,
        "cleanedBelow": 15,
        "cleanedInEpoch": 3,
        "newestSegment": 30,
        "resetting": 0,
        "lostBelow": 1,
    }


def test_leader_epochs_that_fall_are_reported_where_they_are() -> None:
    sound = document(encode_epochs(EpochCache([EpochEntry(1, 0), EpochEntry(3, 7)])))
    assert (list(sound.rows), sound.problems) == ([(1, 0), (3, 7)], ())
    wrong = document(seal("lograft-leader-epochs-1", b"3 7\n1 9\n"))
    assert causes(list(wrong.problems)) == [(4, "EpochsFall")]


def test_producers_show_each_batch_they_remember() -> None:
    state = ProducerState()
    state.update(
        parse_header(encode_batch([b"v"] * 3, timestamps=1, producer_id=9, producer_epoch=2, base_sequence=5)), 0
    )
    dump = document(seal(PRODUCERS_KIND, state.encode()))
    assert dump.rows == [(9, 2, 5, 7, 0, 2)]


def test_a_changed_byte_breaks_the_seal_and_the_content_is_still_shown() -> None:
    content = bytearray(encode_epochs(EpochCache([EpochEntry(1, 0), EpochEntry(3, 7)])))
    content[0] = ord("2")
    dump = document(bytes(content))
    assert dump.kind == "leader-epochs"
    assert list(dump.rows) == [(2, 0), (3, 7)]
    assert causes(list(dump.problems)) == [(8, "BrokenSeal")]


def test_a_cut_seal_is_recognised_by_what_is_left_of_it_or_by_the_name() -> None:
    content = Checkpoint(5, 6).encode()
    assert document(content[:-3]).kind == "checkpoint"
    by_name = document(content[: content.index(b"crc32c")], "checkpoint")
    assert by_name.kind == "checkpoint"
    assert dict(by_name.fields)["recoveryPoint"] == 6
    assert by_name.problems


def test_no_cut_and_no_flip_of_a_small_file_goes_unnoticed_or_raises() -> None:
    for name, content in {
        "checkpoint": Checkpoint(1, 2, 3, 4).encode(),
        "00000000000000000000.index": index_of(make_batches()).encode()[0],
        "00000000000000000000.timeindex": index_of(make_batches()).encode()[1],
        "00000000000000000000.producers": seal(PRODUCERS_KIND, bytes(11)),
    }.items():
        for at in range(len(content)):
            for damaged in (content[:at], content[:at] + bytes((content[at] ^ 0x10,)) + content[at + 1 :]):
                assert document(damaged, name).problems, (name, at)


# -- indexes against their segment


def index_of(parts: list[bytes]) -> SegmentIndex:
    index = SegmentIndex(0)
    for part in parts:
        index.add(parse_header(part), TIME_MS, interval_bytes=1)
    return index


def checked(content: bytes, log: bytes) -> list[tuple[int, str]]:
    dump = document(content)
    assert is_index(dump)
    assert not dump.problems
    return causes(list(check_against_segment(dump, InMemory(log), "x.log").problems))


def test_indexes_agree_with_the_segment_they_are_of_and_with_a_longer_one() -> None:
    parts = make_batches()
    for content in index_of(parts[:4]).encode():
        assert checked(content, b"".join(parts[:4])) == []
        assert checked(content, b"".join(parts)) == []


def test_an_offset_entry_that_points_elsewhere_is_named() -> None:
    parts = make_batches()
    body = bytearray(index_of(parts).encode()[0][: -len(seal(OFFSET_INDEX_KIND, b""))])
    struct.pack_into(">I", body, 40 + 8 * 2, 5)  # the third entry's offset: 4 is there
    assert checked(seal(OFFSET_INDEX_KIND, bytes(body)), b"".join(parts)) == [(56, "WrongEntry")]
    struct.pack_into(">II", body, 40 + 8 * 2, 4, 2 * len(parts[0]) + 1)
    assert checked(seal(OFFSET_INDEX_KIND, bytes(body)), b"".join(parts)) == [(56, "WrongEntry")]


def test_a_time_entry_that_would_hide_records_is_named() -> None:
    parts = make_batches()
    body = bytearray(index_of(parts).encode()[1][: -len(seal(TIME_INDEX_KIND, b""))])
    entry = 40 + 12 * 2
    assert struct.unpack_from(">q", body, entry) == (TIME_MS + 15,)
    struct.pack_into(">q", body, entry, TIME_MS + 14)
    assert checked(seal(TIME_INDEX_KIND, bytes(body)), b"".join(parts)) == [(entry, "WrongEntry")]


def test_an_index_that_covers_more_than_its_segment_is_wrong() -> None:
    parts = make_batches()
    found = checked(index_of(parts).encode()[0], b"".join(parts[:3]))
    assert found[0] == (0, "WrongSummary")


def test_an_index_beside_a_damaged_segment_says_so() -> None:
    parts = make_batches()
    log = bytearray(b"".join(parts))
    log[len(parts[0]) + 16] = 9
    assert checked(index_of(parts).encode()[0], bytes(log)) == [(0, "DamagedSegment")]
