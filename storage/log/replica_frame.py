"""The frames a leader sends a follower, and the check that one continues the follower's log. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from lograft.storage.batch.codec import iterate_batches
from lograft.storage.batch.header import BatchHeader, check_crc
from lograft.storage.errors import FrameMismatch
from lograft.storage.files.segment_index import MAX_OFFSET_SPAN
from lograft.storage.state.epoch_cache import EpochEntry


@dataclass(frozen=True, slots=True)
class ReplicaFrame:
    """Batches that extend a log from `start` to `end`, and the epochs that start in it."""

    start: int
    end: int
    batches: bytes | memoryview
    epochs: Sequence[EpochEntry] = ()


def check_frame(frame: ReplicaFrame, end_offset: int, latest: EpochEntry | None) -> list[BatchHeader]:
    """Return the headers of a frame for a log that ends at `end_offset` in the epoch `latest`.

    Raise FrameMismatch or InvalidBatch if it does not follow. Also check what no CRC covers: offsets rise, and each
    batch has the epoch of its offset.
    """
    if frame.start != end_offset:
        raise FrameMismatch(f"the frame starts at {frame.start}, and the log ends at {end_offset}")
    if frame.end - frame.start > MAX_OFFSET_SPAN:
        raise FrameMismatch(f"the frame reaches from {frame.start} to {frame.end}, further than a segment can")
    epochs = [*([latest] if latest is not None else []), *frame.epochs]
    _check_epochs(frame, epochs)
    headers, next_offset = [], frame.start
    for position, header in iterate_batches(frame.batches):
        check_crc(frame.batches, position, header)
        if header.base_offset < next_offset:
            raise FrameMismatch(f"offset {header.base_offset} where {next_offset} is next")
        while len(epochs) > 1 and epochs[1].start_offset <= header.base_offset:
            del epochs[0]
        if not epochs or header.leader_epoch != epochs[0].epoch:
            raise FrameMismatch(f"leader epoch {header.leader_epoch} at {header.base_offset} is not as in {epochs[:1]}")
        next_offset = header.next_offset
        headers.append(header)
    if not headers or next_offset != frame.end:
        raise FrameMismatch(f"the frame ends at {next_offset}, and should end at {frame.end}")
    return headers


def _check_epochs(frame: ReplicaFrame, epochs: Sequence[EpochEntry]) -> None:
    """Check that epochs and their starts never fall, and that they start in the frame."""
    numbers, starts = [entry.epoch for entry in epochs], [entry.start_offset for entry in epochs]
    is_inside = all(frame.start <= entry.start_offset < frame.end for entry in frame.epochs)
    if numbers != sorted(numbers) or starts != sorted(starts) or not is_inside:
        raise FrameMismatch(f"the epochs {epochs} do not follow one another in [{frame.start}, {frame.end})")
