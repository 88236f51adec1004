"""`lograft dump-log` as a person runs it: a process of its own, on files that the log wrote, and on damaged copies."""

import asyncio
import base64
import errno
import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lograft.cli.common.command_error import CommandError
from lograft.cli.dump.command import open_file
from lograft.runtime.clock import LoopClock
from lograft.runtime.disk.disk_writer import DiskWriter
from lograft.runtime.disk.os_files import OsFiles
from lograft.runtime.production.threads import ThreadBlocking, ThreadWorkers
from lograft.storage.batch.codec import MAGIC_COLUMNS, MAGIC_ROWS, Compression, encode_batch, iterate_batches
from lograft.storage.files.segment import SegmentFiles
from lograft.storage.log.admission import admit
from lograft.storage.log.log_config import LogConfig
from lograft.storage.log.partition_disk import Disk
from lograft.storage.log.partition_log import open_log

TIME_MS = 1_767_225_600_000  # 2026-01-01
FIRST_SEGMENT = "00000000000000000000.log"
VALUES = (b"plain", b'quote " and \\', b"\x1b[31mred", b"\xff\x00binary", "größe".encode(), b"", None, b"x" * 300)
BATCHES = 20


def values_of(batch: int) -> list[bytes | None]:
    return [VALUES[batch % len(VALUES)], b"second of %d" % batch]


def encode(number: int) -> bytes:
    return encode_batch(
        values_of(number),
        keys=[b"key", None],
        timestamps=[TIME_MS + 1000 * number, TIME_MS + 1000 * number + 250],
        headers=[[("trace", b"1"), ("trace", None)], []],
        magic=(MAGIC_ROWS, MAGIC_COLUMNS)[number % 2],
        compression=list(Compression)[number % 5],
        producer_id=77 if number % 4 == 0 else -1,
        producer_epoch=1 if number % 4 == 0 else -1,
        base_sequence=number // 2 if number % 4 == 0 else -1,
    )


async def write_log(directory: str) -> None:
    """Twenty batches of both layouts and all codecs, under three epochs, in several segments."""
    files, blocking = OsFiles(), ThreadBlocking(2)
    failures: list[BaseException] = []
    workers = ThreadWorkers(failures.append)
    writer = DiskWriter(files, workers, os.path.dirname(directory))
    disk = Disk(files, blocking, LoopClock(), writer, SegmentFiles(files, blocking))
    config = LogConfig(segment_bytes=2000, index_interval_bytes=200)
    log = await open_log(disk, directory, config)
    for number in range(BATCHES):
        epoch = 1 + number // 8
        if number % 8 == 0:
            log.assign_epoch(epoch)
        log.append_as_leader(admit(encode(number), config, TIME_MS), epoch)
    await log.close()
    await writer.close()
    await workers.close()
    await blocking.close()
    files.close()
    assert not failures


@pytest.fixture(scope="module")
def partition(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("data") / "orders-0.id"
    asyncio.run(write_log(str(directory)))
    return directory


def lograft(*arguments: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONIOENCODING": "utf-8", "COLUMNS": "100"}
    command = [sys.executable, "-m", "lograft", *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, **options)
    assert "Traceback" not in result.stderr
    return result


def dump_json(path: Path, *flags: str) -> tuple[int, dict[str, Any]]:
    result = lograft("dump-log", path, "-o", "json", *flags)
    parsed = json.loads(result.stdout)
    assert result.returncode == (0 if parsed["valid"] else 1)
    assert parsed["valid"] == (parsed["errors"] == []) == (result.stderr == "")
    return result.returncode, parsed


def as_bytes(value: str | dict[str, str] | None) -> bytes | None:
    if isinstance(value, dict):
        return base64.b64decode(value["base64"])
    return None if value is None else value.encode()


# -- sound files


def test_every_record_that_was_written_comes_back_from_the_json_of_all_segments(partition: Path) -> None:
    segments = sorted(partition.glob("*.log"))
    assert len(segments) >= 3
    records: list[dict[str, Any]] = []
    batches: list[dict[str, Any]] = []
    for segment in segments:
        code, dump = dump_json(segment, "--deep")
        assert (code, dump["kind"], dump["bytes"]) == (0, "segment", segment.stat().st_size)
        batches += dump["batches"]
        records += [record for batch in dump["batches"] for record in batch["records"]]
    assert [record["offset"] for record in records] == list(range(2 * BATCHES))
    assert [as_bytes(record["value"]) for record in records] == [v for i in range(BATCHES) for v in values_of(i)]
    assert [record["timestamp"] for record in records[:4]] == [TIME_MS + delta for delta in (0, 250, 1000, 1250)]
    assert records[0]["headers"] == [{"key": "trace", "value": "1"}, {"key": "trace", "value": None}]
    assert [batch["leaderEpoch"] for batch in batches] == [1 + number // 8 for number in range(BATCHES)]
    assert {(batch["layout"], batch["compression"]) for batch in batches} == {
        (layout, codec.name.lower()) for layout in ("rows", "columns") for codec in Compression
    }
    assert [batch["producerId"] for batch in batches[:5]] == [77, None, None, None, 77]
    assert (batches[4]["baseSequence"], batches[4]["lastSequence"]) == (2, 3)


def test_every_file_of_a_partition_is_known_and_valid_under_any_name(partition: Path, tmp_path: Path) -> None:
    kinds = {
        "log": "segment",
        "index": "offset-index",
        "timeindex": "time-index",
        "producers": "producers",
        "checkpoint": "checkpoint",
        "leader-epochs": "leader-epochs",
    }
    for path in [partition / f"{FIRST_SEGMENT[:-4]}.index", *partition.glob("*-*"), *partition.glob("check*")]:
        code, dump = dump_json(path, "--deep")
        assert (code, dump["kind"]) == (0, kinds[path.name.rpartition(".")[2]])
    for path in (max(partition.glob("*.timeindex")), max(partition.glob("*.producers"))):
        copy = tmp_path / "renamed.log.bak"
        copy.write_bytes(path.read_bytes())
        code, dump = dump_json(copy)
        assert (code, dump["kind"]) == (0, kinds[path.suffix[1:]])


def test_deep_checks_an_index_against_the_segment_beside_it(partition: Path, tmp_path: Path) -> None:
    stem = FIRST_SEGMENT[:-4]
    index, log = tmp_path / f"{stem}.index", tmp_path / f"{stem}.log"
    index.write_bytes((partition / index.name).read_bytes())
    _, alone = dump_json(index, "--deep")
    assert "were not checked" in alone["note"]
    log.write_bytes((partition / log.name).read_bytes())
    _, beside = dump_json(index, "--deep")
    assert f"checked against {log.name}" in beside["note"]
    assert len(beside["entries"]) > 2
    log.write_bytes(max(partition.glob("*.log")).read_bytes())
    code, wrong = dump_json(index, "--deep")
    assert code == 1
    assert {error["cause"] for error in wrong["errors"]} <= {"WrongEntry", "WrongSummary"}
    assert dump_json(index)[0] == 0  # without --deep nobody looks at the segment


def test_an_empty_segment_is_valid_and_says_so(tmp_path: Path) -> None:
    empty = tmp_path / "empty.log"
    empty.touch()
    result = lograft("dump-log", empty)
    assert result.returncode == 0
    assert "nothing was appended yet" in result.stdout


# -- damaged files


def boundaries(content: bytes) -> list[int]:
    return [position for position, _ in iterate_batches(content)]


def flip(position: int) -> Callable[[bytes], bytes]:
    return lambda content: content[:position] + bytes((content[position] ^ 0x04,)) + content[position + 1 :]


@pytest.mark.parametrize(
    ("within_batch", "cause"),
    [(9, "BadBatchLength"), (16, "UnknownMagic"), (18, "BadCrc"), (22, "BadCrc"), (30, "BadCrc"), (80, "BadCrc")],
    ids=["length", "magic", "crc", "attributes", "timestamp", "payload"],
)
def test_damage_inside_a_batch_is_named_where_it_is_and_hides_no_other(
    partition: Path, tmp_path: Path, within_batch: int, cause: str
) -> None:
    content = (partition / FIRST_SEGMENT).read_bytes()
    starts = boundaries(content)
    assert len(starts) > 4
    copy = tmp_path / "copy"
    copy.write_bytes(flip(starts[2] + within_batch)(content))
    code, dump = dump_json(copy, "--deep")
    assert code == 1
    assert [(error["position"], error["cause"]) for error in dump["errors"]] == [(starts[2], cause)]
    sound = [batch["position"] for batch in dump["batches"] if batch["valid"]]
    assert sound == starts[:2] + starts[3:]


def test_inserted_garbage_and_a_cut_tail_are_told_apart(partition: Path, tmp_path: Path) -> None:
    content = (partition / FIRST_SEGMENT).read_bytes()
    starts = boundaries(content)
    copy = tmp_path / "copy"
    copy.write_bytes(content[: starts[1]] + b"garbage!" * 20 + content[starts[1] : -7])
    code, dump = dump_json(copy)
    assert code == 1
    assert [(error["position"], error["skippedBytes"]) for error in dump["errors"]] == [
        (starts[1], 160),
        (starts[-1] + 160, 0),
    ]
    assert dump["errors"][1]["cause"] == "TornTail"
    assert [batch["position"] for batch in dump["batches"][1:]] == [start + 160 for start in starts[1:]]


def test_batches_out_of_order_are_reported(partition: Path, tmp_path: Path) -> None:
    content = (partition / FIRST_SEGMENT).read_bytes()
    copy = tmp_path / "copy"
    copy.write_bytes(max(partition.glob("*.log")).read_bytes() + content)
    code, dump = dump_json(copy)
    assert code == 1
    assert [error["cause"] for error in dump["errors"]] == ["OffsetsFall", "EpochsFall"]


def test_a_broken_seal_is_reported_with_what_is_left(partition: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.write_bytes(flip(0)((partition / "leader-epochs").read_bytes()))
    code, dump = dump_json(copy)
    assert (code, dump["kind"], dump["errors"][0]["cause"]) == (1, "leader-epochs", "BrokenSeal")
    assert [entry["startOffset"] for entry in dump["entries"]] == [0, 16, 32]


def test_an_unknown_file_is_refused_in_words(tmp_path: Path) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("nothing of ours\n")
    result = lograft("dump-log", other)
    assert result.returncode == 1
    assert "holds no record batch" in result.stdout
    assert "is not valid" in result.stderr


# -- what people see

TRANSCRIPT = """\
copy: segment, 555 bytes

POSITION  OFFSETS  RECORDS  BYTES  EPOCH  LAYOUT   CODEC  CRC  TIMESTAMPS                               DETAILS
       0     0..1        2    110      1  rows     none   ok   2026-01-01T00:00:00.000Z..00:00:00.250Z  producer 77/1 sequence 0..1
            offset 0  2026-01-01T00:00:00.000Z  key "key"  value "plain"  headers "trace": "1", "trace": null
            offset 1  2026-01-01T00:00:00.250Z  key null  value "second of 0"
     110     2..3        2    336      1  columns  none   ok   2026-01-01T00:00:01.250Z                 transactional, append time
            offset 2  2026-01-01T00:00:01.250Z  key "k\\x00\\xff"  value "\\x1b[31mred \\\\ \\"größe\\""
            offset 3  2026-01-01T00:00:01.250Z  key null  value "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy…" (101 bytes)
     446        4        1     69      2  rows     none   BAD  2026-01-02T00:00:00.000Z
  ! byte 446: the batch has CRC 0x838edf93, its header says 0x902c47e4 (BadCrc)
  ! byte 515: 40 bytes are left, too few for a batch header (TornTail)

3 batches, 4 records, 555 bytes, offsets 0..3, 1 of the batches invalid, 40 bytes skipped; 2 problems, the first at byte 446
"""  # noqa: E501


def transcript_file() -> bytes:
    first = encode(0)[:12] + struct.pack(">i", 1) + encode(0)[16:]
    second = encode_batch(
        ['\x1b[31mred \\ "größe"'.encode(), b"y" * 101],
        keys=[b"k\x00\xff", None],
        timestamps=[TIME_MS + 1000, TIME_MS + 1250],
        base_offset=2,
        leader_epoch=1,
        append_time=True,
        transactional=True,
    )
    third = bytearray(
        encode_batch([b"v"], timestamps=TIME_MS + 86_400_000, magic=MAGIC_ROWS, base_offset=4, leader_epoch=2)
    )
    third[-2] ^= 1
    return first + second + third + b"\x00" * 40


def test_the_table_reads_as_it_did(tmp_path: Path) -> None:
    (tmp_path / "copy").write_bytes(transcript_file())
    result = lograft("dump-log", "copy", "--deep", cwd=tmp_path)
    assert result.stdout == TRANSCRIPT
    assert result.stderr == "copy is not valid: 2 problems, the first at byte 446\n"
    assert result.returncode == 1


def test_small_files_read_as_tables_too(partition: Path) -> None:
    assert lograft("dump-log", "leader-epochs", cwd=partition).stdout == (
        "leader-epochs: leader epochs\n"
        "\n"
        "EPOCH  START OFFSET\n"
        "    1             0\n"
        "    2            16\n"
        "    3            32\n"
        "\n"
        "3 entries; all valid\n"
    )
    assert lograft("dump-log", "checkpoint", cwd=partition).stdout == (
        "checkpoint: checkpoint\n"
        "\n"
        "log start                 0\n"
        "recovery point            40\n"
        "first dirty               0\n"
        "tombstones removed below  0\n"
        "cleaned below             0\n"
        "cleaned in epoch          -1\n"
        "newest segment            34\n"
        "resetting                 0\n"
        "lost below                0\n"
        "\n"
        "all valid\n"
    )


# -- the command


@pytest.mark.parametrize(
    ("name", "cause", "remedy"),
    [
        ("missing.log", "No such file", "check the path"),
        ("directory", "is a directory", "directory/0.log"),
        ("pipe", "is not a regular file", "copy"),
        ("missing.log/x", "No such file", "check the path"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_line_of_cause_and_one_of_remedy(
    tmp_path: Path, name: str, cause: str, remedy: str
) -> None:
    (tmp_path / "directory").mkdir()
    (tmp_path / "directory" / "0.log").touch()
    os.mkfifo(tmp_path / "pipe")
    result = lograft("dump-log", tmp_path / name)
    lines = result.stderr.splitlines()
    assert (result.returncode, result.stdout, len(lines)) == (1, "", 2)
    assert cause in lines[0]
    assert lines[1].startswith("Remedy: ")
    assert remedy in lines[1]


def test_a_file_without_permission_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(os, "open", refuse)  # root, who may run the tests, is never refused
    with pytest.raises(CommandError, match=r"cannot read x\.log: Permission denied") as refusal, open_file("x.log"):
        pass
    assert "the user that owns the file" in refusal.value.remedy


def test_a_file_that_may_only_be_read_is_dumped(partition: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.write_bytes((partition / FIRST_SEGMENT).read_bytes())
    copy.chmod(0o400)
    assert dump_json(copy)[0] == 0


def test_a_reader_that_leaves_early_causes_no_noise(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.write_bytes(
        b"".join(encode_batch([b"v" * 50], timestamps=1, base_offset=i, leader_epoch=1) for i in range(3000))
    )
    command = [sys.executable, "-m", "lograft", "dump-log", str(copy), "--deep"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline().startswith(str(copy).encode())
    process.stdout.close()
    noise = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=60) == 1
    assert noise == b""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["dump-lg"], "Did you mean 'dump-log'?"),
        (["dump-log"], "Missing argument 'FILE'"),
        (["dump-log", "x", "-o", "xml"], "'xml' is not an output format: use table, json"),
        (["--nonsense"], "No such option"),
    ],
)
def test_wrong_usage_exits_2_and_says_what_is_wrong(arguments: list[str], said: str) -> None:
    result = lograft(*arguments)
    assert result.returncode == 2
    assert said in result.stderr
    assert result.stdout == ""


def test_output_that_cannot_hold_a_character_is_escaped_and_json_stays_json(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.write_bytes(encode_batch(["größe €".encode()], timestamps=1, leader_epoch=1))
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    for form in ("table", "json"):
        command = [sys.executable, "-m", "lograft", "dump-log", str(copy), "--deep", "-o", form]
        result = subprocess.run(command, capture_output=True, timeout=60, env=environment)
        assert (result.returncode, result.stderr) == (0, b"")
    assert json.loads(result.stdout)["batches"][0]["records"][0]["value"] == "größe €"
