"""Compaction of one batch. Pure.

Compaction removes a record if a later one has its key, and, as in Kafka, if it has no key at all (a topic that was not
always compacted may hold some). A tombstone, a record without a value, stays until its batch's delete horizon. The
first compaction that meets it sets the horizon, so that a consumer that reads the log from its start within
`delete.retention.ms` of having seen the older value also sees the deletion.
"""

from collections.abc import Iterable, Sequence

from lograft.runtime.files import Buffer
from lograft.storage.batch.codec import decode_columns, encode_batch
from lograft.storage.batch.compression import Compression
from lograft.storage.batch.header import MAX_TIMESTAMP, BatchHeader
from lograft.storage.batch.record import Columns
from lograft.storage.cleaning.key_map import KeyMap
from lograft.storage.errors import BatchTooLarge, InvalidBatch


class BatchCleaner:
    """Cleans batches, in any order, and counts what it removes."""

    def __init__(self, keys: KeyMap, live_producers: Iterable[int], now_ms: int, delete_retention_ms: int) -> None:
        self._keys = keys
        self._live_producers = frozenset(live_producers)
        self._now_ms = now_ms
        self._delete_horizon = min(now_ms + delete_retention_ms, MAX_TIMESTAMP)
        self.records_removed = 0
        self.tombstones_removed_below = 0  # the end of the last batch that lost a tombstone to its horizon

    @property
    def cleaned_below(self) -> int:
        """Every record that supersedes a removed one is below this offset."""
        return self._keys.end

    def clean(self, header: BatchHeader, batch: Buffer, *, is_last: bool) -> Buffer | None:
        """Return what replaces `batch`: itself, a smaller one with the same bounds, or nothing.

        Keep the last batch of a segment and the last of each live producer even if they become empty: they record the
        log's end, and the sequence numbers used.
        """
        if header.base_offset >= self._keys.end or header.is_control:
            return batch
        must_stay = is_last or self._is_last_of_producer(header)
        try:
            columns = decode_columns(batch)
        except InvalidBatch:
            # Its checksum is right, so its producer sent it like this: unreadable, but harmless.
            return batch
        kept = self._kept(header, columns)
        self.records_removed += header.record_count - len(kept)
        if not kept:
            if not must_stay:
                return None
            return batch if header.record_count == 0 else _rewritten(header, columns, kept, None)
        has_tombstones = any(columns.values[place] is None for place in kept)
        if len(kept) == header.record_count and (header.has_delete_horizon or not has_tombstones):
            return batch
        horizon = header.base_timestamp if header.has_delete_horizon else self._delete_horizon
        return _rewritten(header, columns, kept, horizon if has_tombstones else None)

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        """Return True if it is its producer's last batch in the cleaned range. A later one, not cleaned yet, may still
        be truncated."""
        if header.producer_id not in self._live_producers:
            return False
        return self._keys.last_offsets.get(header.producer_id, header.last_offset) == header.last_offset

    def _kept(self, header: BatchHeader, columns: Columns) -> list[int]:
        """Return the positions of the records that stay."""
        latest_offsets = self._keys.latest_of(columns.keys)
        kept = [
            place
            for place, (latest, offset) in enumerate(zip(latest_offsets, columns.offsets, strict=True))
            if latest is None or latest <= offset
        ]
        if None in columns.keys:
            kept = [place for place in kept if columns.keys[place] is not None]
        if not header.has_delete_horizon or self._now_ms < header.base_timestamp:
            return kept
        with_values = [place for place in kept if columns.values[place] is not None]
        if len(with_values) < len(kept):
            self.tombstones_removed_below = max(self.tombstones_removed_below, header.next_offset)
        return with_values


def _rewritten(header: BatchHeader, columns: Columns, kept: Sequence[int], delete_horizon: int | None) -> bytes:
    """Return the batch with the records at `kept` only; keep everything else as far as the remaining records allow."""

    def encode(compression: Compression) -> bytes:
        return encode_batch(
            [columns.values[place] for place in kept],
            keys=[columns.keys[place] for place in kept],
            timestamps=[columns.timestamps[place] for place in kept] or header.max_timestamp,
            headers=[columns.headers[place] for place in kept],
            magic=header.magic,
            compression=compression,
            offset_deltas=[columns.offsets[place] - header.base_offset for place in kept],
            base_offset=header.base_offset,
            leader_epoch=header.leader_epoch,
            last_offset_delta=header.last_offset_delta,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            transactional=header.is_transactional,
            append_time=header.is_append_time,
            delete_horizon=delete_horizon,
        )

    try:
        return encode(header.compression)
    except BatchTooLarge:
        # Sparse deltas are now stored for each record, which made the payload exceed the limit of compressed ones.
        return encode(Compression.NONE)
