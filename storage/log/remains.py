"""The readable remains of a damaged log: surveyed without changing it, and kept if an unclean election chooses them.
Blocking.

The survey reads the log segment by segment. A missing file or unsound bytes end a run of batches; the next sound batch
begins another. The last run with a batch is the remains: it has no hole, and it holds the newest offsets, so none is
assigned twice.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from lograft.runtime.files import File, Files, parent_of, read_whole, replace_file
from lograft.storage.batch.header import HEADER_BYTES, BatchHeader, parse_header
from lograft.storage.errors import InvalidBatch
from lograft.storage.files.batch_scan import scan_batches
from lograft.storage.files.file_names import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TEMPORARY_SUFFIX,
    TIME_INDEX_SUFFIX,
    numbered,
    parse_numbered,
)
from lograft.storage.state.checkpoint import (
    CHECKPOINT_FILE,
    EPOCHS_FILE,
    Checkpoint,
    decode_epochs,
    encode_epochs,
)
from lograft.storage.state.epoch_cache import EpochCache, EpochEntry

_COPY_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Piece:
    """The sound bytes [position, end_position) of the segment at `base_offset`."""

    base_offset: int
    position: int
    end_position: int


@dataclass(slots=True)
class _Run:
    """Consecutive sound batches, without a gap."""

    start_offset: int
    end_offset: int
    pieces: list[_Piece] = field(default_factory=list)
    epochs: EpochCache = field(default_factory=EpochCache)

    @property
    def has_batches(self) -> bool:
        return len(self.epochs) > 0

    def allows(self, header: BatchHeader) -> bool:
        latest = self.epochs.latest
        return header.base_offset >= self.end_offset and (latest is None or header.leader_epoch >= latest.epoch)

    def add(self, header: BatchHeader) -> None:
        self.epochs.assign(header.leader_epoch, header.base_offset)
        self.end_offset = header.next_offset


@dataclass(frozen=True, slots=True)
class Remains:
    """The log as it would be kept: [start_offset, end_offset), its last batch of `last_epoch`. The first batch may
    begin before that, at `base_offset`."""

    base_offset: int
    start_offset: int
    end_offset: int
    last_epoch: int
    checkpoint: Checkpoint | None  # None: missing or damaged as well
    epochs: tuple[EpochEntry, ...]
    pieces: tuple[_Piece, ...]


def survey(files: Files, directory: str) -> Remains | None:
    """Return the remains of the log in `directory`; None if no batch is readable. Changes nothing."""
    if not files.exists(directory):
        return None
    runs = [run for run in _runs(files, directory) if run.has_batches]
    if not runs:
        return None
    run, checkpoint = runs[-1], _read_checkpoint(files, directory)
    log_start = checkpoint.log_start if checkpoint is not None else 0
    start_offset = min(max(run.start_offset, log_start), run.end_offset)
    epochs = _epochs(files, directory, run)
    epochs.forget_before(start_offset)
    latest = epochs.latest
    assert latest is not None
    return Remains(
        run.start_offset, start_offset, run.end_offset, latest.epoch, checkpoint, tuple(epochs), tuple(run.pieces)
    )


def keep(files: Files, directory: str, remains: Remains, aside: str, *, is_compacted: bool) -> None:
    """Turn the damaged log in `directory` into a sound one that holds `remains`; move other segments to `aside`.

    Durable on return. After a crash in between, the log is either sound already, or damaged with the same remains.
    """
    first, last = remains.pieces[0], remains.pieces[-1]
    if first.position > 0:
        first = _copy(files, directory, first, remains.base_offset)
        last = first if len(remains.pieces) == 1 else last
    kept = {first.base_offset, *(piece.base_offset for piece in remains.pieces[1:])}
    replace_file(files, f"{directory}/{EPOCHS_FILE}", encode_epochs(EpochCache(remains.epochs)))
    checkpoint = _checkpoint(remains, last.base_offset, is_compacted=is_compacted)
    replace_file(files, f"{directory}/{CHECKPOINT_FILE}", checkpoint.encode())
    _cut(files, directory, last)
    _move_aside(files, directory, [base for base in _bases(files, directory) if base not in kept], aside)


# -- reading


def _runs(files: Files, directory: str) -> Iterator[_Run]:
    run: _Run | None = None
    for base_offset in _bases(files, directory):
        path = f"{directory}/{numbered(base_offset, LOG_SUFFIX)}"
        if run is not None and run.end_offset != base_offset:
            yield run
            run = None
        position, size_bytes, file = 0, files.size(path), files.open(path)
        try:
            while True:
                if run is None:
                    run = _Run(base_offset, base_offset) if position == 0 else _Run(-1, -1)
                end_position = _extend(run, file, position, size_bytes)
                run.pieces.append(_Piece(base_offset, position, end_position))
                if end_position == size_bytes:
                    break
                yield run
                run, after = None, _after(file, end_position, size_bytes)
                if after is None:
                    break
                position = after
        finally:
            file.close()
    if run is not None:
        yield run


def _extend(run: _Run, file: File, position: int, size_bytes: int) -> int:
    """Add the batches from `position` on to `run`; return where the sound ones end."""
    try:
        for found in scan_batches(file, position, size_bytes):
            if run.start_offset < 0:
                run.start_offset = run.end_offset = found.header.base_offset
            if not run.allows(found.header):
                break
            run.add(found.header)
            position = found.end_position
    except InvalidBatch:
        pass
    return position


def _after(file: File, position: int, size_bytes: int) -> int | None:
    """Return the end of the unsound batch at `position`; None if unknown."""
    try:
        header = parse_header(file.read(position, min(HEADER_BYTES, size_bytes - position)))
    except InvalidBatch:
        return None
    end_position = position + header.total_bytes
    return end_position if end_position < size_bytes else None


def _bases(files: Files, directory: str) -> list[int]:
    numbers = filter(None, map(parse_numbered, files.list_directory(directory)))
    return sorted(offset for offset, suffix in numbers if suffix == LOG_SUFFIX)


def _read_checkpoint(files: Files, directory: str) -> Checkpoint | None:
    try:
        return Checkpoint.decode(read_whole(files, f"{directory}/{CHECKPOINT_FILE}"))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def _epochs(files: Files, directory: str, run: _Run) -> EpochCache:
    """Return the epochs of the file if it is sound and agrees with the batches; else those of the batches.

    The file lacks epochs before the log start. If the checkpoint is lost, the log starts earlier again.
    """
    try:
        noted = EpochCache(decode_epochs(read_whole(files, f"{directory}/{EPOCHS_FILE}")))
    except (FileNotFoundError, ValueError, TypeError):
        return run.epochs
    noted.clip_to(run.end_offset)
    if not noted or not all(noted.allows(entry.epoch, entry.start_offset) for entry in run.epochs):
        return run.epochs
    first = next(iter(noted)).start_offset
    return EpochCache([*(entry for entry in run.epochs if entry.start_offset < first), *noted])


# -- keeping


def _checkpoint(remains: Remains, newest_segment: int, *, is_compacted: bool) -> Checkpoint:
    """Return the new checkpoint. The log start is now the operator's decision, but followers must not delete up to
    it."""
    start, end, known = remains.start_offset, remains.end_offset, remains.checkpoint
    if known is None:
        known = Checkpoint()
        if is_compacted:
            # Which records compaction removed is unknown now: any may be missing.
            known = replace(known, cleaned_below=end, cleaned_in_epoch=remains.last_epoch, tombstones_removed_below=end)
    return replace(
        known,
        log_start=start,
        recovery_point=max(start, min(known.recovery_point, end)),
        first_dirty=max(start, min(known.first_dirty, end)),
        newest_segment=newest_segment,
        resetting=0,
        lost_below=start if start > known.log_start else known.lost_below,
    )


def _copy(files: Files, directory: str, piece: _Piece, base_offset: int) -> _Piece:
    """Make `piece`, which begins in the middle of a segment, a segment of its own."""
    source = files.open(f"{directory}/{numbered(piece.base_offset, LOG_SUFFIX)}")
    path = f"{directory}/{numbered(base_offset, LOG_SUFFIX)}"
    try:
        target = files.create(path + TEMPORARY_SUFFIX)
        try:
            for position in range(piece.position, piece.end_position, _COPY_BYTES):
                content = source.read(position, min(_COPY_BYTES, piece.end_position - position))
                target.write(position - piece.position, [content])
            target.sync()
        finally:
            target.close()
    finally:
        source.close()
    files.rename(path + TEMPORARY_SUFFIX, path)
    files.sync_directory(directory)
    return _Piece(base_offset, 0, piece.end_position - piece.position)


def _cut(files: Files, directory: str, piece: _Piece) -> None:
    path = f"{directory}/{numbered(piece.base_offset, LOG_SUFFIX)}"
    if files.size(path) == piece.end_position:
        return
    _remove_indexes(files, directory, piece.base_offset)
    files.sync_directory(directory)
    file = files.open(path)
    try:
        file.truncate(piece.end_position)
        file.sync()
    finally:
        file.close()


def _move_aside(files: Files, directory: str, bases: list[int], aside: str) -> None:
    if not bases:
        return
    files.make_directory(aside)
    files.sync_directory(parent_of(aside))
    for base_offset in bases:
        _remove_indexes(files, directory, base_offset)
        name = numbered(base_offset, LOG_SUFFIX)
        files.rename(f"{directory}/{name}", f"{aside}/{name}")
    files.sync_directory(aside)
    files.sync_directory(directory)


def _remove_indexes(files: Files, directory: str, base_offset: int) -> None:
    for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
        path = f"{directory}/{numbered(base_offset, suffix)}"
        if files.exists(path):
            files.remove(path)
