"""Damages files of a node that is down: flips a bit, truncates a file, or removes files."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from lograft.runtime.rng import Rng
from lograft.storage.batch.codec import iterate_batches
from lograft.storage.errors import InvalidBatch
from lograft.storage.files.file_names import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    PRODUCERS_SUFFIX,
    TIME_INDEX_SUFFIX,
    PartitionName,
)
from lograft.storage.state.checkpoint import CHECKPOINT_FILE, EPOCHS_FILE, Checkpoint
from lograft.storage.state.watermarks_file import WATERMARKS_FILE

_DERIVED = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, PRODUCERS_SUFFIX)


class Damage(Enum):
    FLIPPED = "a bit flipped"
    CUT = "cut short"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Spoilable:
    """A file whose first `size_bytes` may be damaged, in the given ways."""

    path: Path
    size_bytes: int
    ways: tuple[Damage, ...]


def damage_files(data: Path, rng: Rng, *, is_careful: bool) -> str | None:
    """Damage one file of one partition. Return a description, or None if there is nothing to damage.

    Damage above a log's recovery point cannot be distinguished from a write torn by a crash, and is truncated in the
    same way. No record is lost while other replicas have it. `is_careful` leaves that part intact, for cases in which
    the others may be down.
    """
    found = [each for each in _spoilable(data, is_careful) if each.size_bytes]
    if not found:
        return None
    # Some topics have many partitions, and some kinds many files: give each topic and kind its share.
    for share in (_topic_of, _kind_of):
        chosen_share = rng.choice(sorted({share(each) for each in found}))
        found = [each for each in found if share(each) == chosen_share]
    chosen = rng.choice(found)
    way = rng.choice(chosen.ways)
    where = f"{chosen.path.parent.name.partition('.')[0]}/{chosen.path.name}"
    match way:
        case Damage.GONE:
            chosen.path.unlink()
            return f"{where} {way.value}"
        case Damage.CUT:
            size = rng.randrange(chosen.size_bytes)
            with chosen.path.open("r+b") as file:
                file.truncate(size)
            return f"{where} {way.value} to {size} bytes"
        case Damage.FLIPPED:
            byte, bit = rng.randrange(chosen.size_bytes), rng.randrange(8)
            with chosen.path.open("r+b") as file:
                file.seek(byte)
                old = file.read(1)[0]
                file.seek(byte)
                file.write(bytes([old ^ (1 << bit)]))
            return f"{where} {way.value}: bit {bit} of byte {byte}"


def lose_files(data: Path, rng: Rng) -> str | None:
    """Remove some files of one partition: those of one kind, from the beginning, the middle or the end, or all of them.
    Sometimes remove the node's watermark file, too. Return a description, or None if there is nothing to remove."""
    directories = [path for path in sorted(data.iterdir()) if PartitionName.parse(path.name) is not None]
    topics = sorted({path.name.rpartition("-")[0] for path in directories})
    if not topics:
        return None
    topic = rng.choice(topics)
    directory = rng.choice([path for path in directories if path.name.rpartition("-")[0] == topic])
    names = sorted(path.name for path in directory.iterdir())
    lost = _some_of(names, rng)
    for name in lost:
        (directory / name).unlink()
    where = directory.name.partition(".")[0]
    if (data / WATERMARKS_FILE).exists() and rng.random() < 0.3:
        (data / WATERMARKS_FILE).unlink()
        where += f" and {WATERMARKS_FILE}"
    if len(lost) == len(names):
        directory.rmdir()
        return f"{where} {Damage.GONE.value}"
    return f"{', '.join(lost)} of {where} {Damage.GONE.value}"


def _some_of(names: list[str], rng: Rng) -> list[str]:
    segments = [name for name in names if name.endswith(LOG_SUFFIX)]
    match rng.choice(["segment", "segment", "segment", "truth", "derived", "all"]):
        case "segment" if segments:
            stem = rng.choice([segments[0], rng.choice(segments), segments[-1]]).removesuffix(LOG_SUFFIX)
            suffixes = (LOG_SUFFIX,) if rng.random() < 0.5 else (LOG_SUFFIX, *_DERIVED)
            return [f"{stem}{suffix}" for suffix in suffixes if f"{stem}{suffix}" in names]
        case "truth":
            return [name for name in [rng.choice([CHECKPOINT_FILE, EPOCHS_FILE])] if name in names] or names
        case "derived":
            suffix = rng.choice(_DERIVED)
            return [name for name in names if name.endswith(suffix)] or names
        case _:
            return names


def _topic_of(file: Spoilable) -> str:
    return file.path.parent.name.rpartition("-")[0]


def _kind_of(file: Spoilable) -> str:
    return file.path.suffix or file.path.name


def _spoilable(data: Path, is_careful: bool) -> Iterator[Spoilable]:
    for directory in sorted(data.iterdir()):
        if directory.is_dir() and PartitionName.parse(directory.name) is not None:
            yield from _of_partition(directory, is_careful)


def _of_partition(directory: Path, is_careful: bool) -> Iterator[Spoilable]:
    checkpoint = directory / CHECKPOINT_FILE
    recovery_point = _recovery_point(checkpoint)
    for path in sorted(directory.iterdir()):
        if path.name in (CHECKPOINT_FILE, EPOCHS_FILE):
            yield Spoilable(path, path.stat().st_size, (Damage.FLIPPED, Damage.CUT))
        elif path.suffix in _DERIVED:
            yield Spoilable(path, path.stat().st_size, tuple(Damage))
        elif path.suffix == LOG_SUFFIX:
            content = path.read_bytes()
            size_bytes = _vouched_for_bytes(content, recovery_point) if is_careful else len(content)
            yield Spoilable(path, size_bytes, (Damage.FLIPPED, Damage.CUT))


def _recovery_point(path: Path) -> int:
    try:
        return Checkpoint.decode(path.read_bytes()).recovery_point
    except (FileNotFoundError, ValueError):
        return 0


def _vouched_for_bytes(content: bytes, recovery_point: int) -> int:
    """Return how many bytes of a segment lie below the recovery point."""
    size_bytes = 0
    try:
        for position, header in iterate_batches(memoryview(content)):
            if header.next_offset > recovery_point:
                break
            size_bytes = position + header.total_bytes
    except InvalidBatch:
        pass  # torn last write
    return size_bytes
