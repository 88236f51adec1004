"""Records given as Arrow arrays, which go into batches without copies or a Python object per record."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lograft.clients.errors import InvalidArgument
from lograft.clients.records.list_columns import RECORD_OVERHEAD_BYTES, ListColumns, Sized, record_bytes
from lograft.clients.records.validation import check_bytes_column, check_header_lists, check_timestamp
from lograft.storage.batch import arrow_payload as arrow_layout
from lograft.storage.batch.arrow_payload import HEADERS_TYPE

_COLUMNS = ("value", "key", "timestamp", "headers", "partition")


@dataclass(slots=True, eq=False)
class ArrowColumns(Sized):
    """`values`, `keys`: binary arrays. `timestamps`: one for all records, or an array of milliseconds."""

    values: Any
    keys: Any
    timestamps: int | NDArray[np.int64]
    headers: Any
    ends: NDArray[np.int64]

    def cut(self, start: int, end: int) -> "ArrowColumns":
        """Return the records from `start` to `end`, sharing memory."""
        count = end - start
        return ArrowColumns(
            self.values.slice(start, count),
            None if self.keys is None else self.keys.slice(start, count),
            self.timestamps if isinstance(self.timestamps, int) else self.timestamps[start:end],
            None if self.headers is None else self.headers.slice(start, count),
            self.ends[start:end] - self.bytes_before(start),
        )

    part = cut

    def pick(self, indices: NDArray[np.int64]) -> "ArrowColumns":
        """Return the records at these indices, in that order."""
        return ArrowColumns(
            self.values.take(pa.array(indices)),
            None if self.keys is None else self.keys.take(pa.array(indices)),
            self.timestamps if isinstance(self.timestamps, int) else self.timestamps[indices],
            None if self.headers is None else self.headers.take(pa.array(indices)),
            np.cumsum(np.diff(self.ends, prepend=0)[indices]),
        )

    def as_lists(self) -> ListColumns:
        """Return the same records as Python objects, to join a few of them with others."""
        count = len(self)
        return ListColumns(
            self.values.to_pylist(),
            None if self.keys is None else self.keys.to_pylist(),
            [self.timestamps] * count if isinstance(self.timestamps, int) else self.timestamps.tolist(),
            None if self.headers is None else arrow_layout.header_pairs(self.headers),  # type: ignore[arg-type]
            self.size_bytes,
        )

    def timestamp(self, index: int) -> int:
        return self.timestamps if isinstance(self.timestamps, int) else int(self.timestamps[index])

    def only_timestamps(self) -> "ArrowColumns":
        """Return the columns without contents: stored records only need timestamps, for their metadata."""
        return ArrowColumns(None, None, self.timestamps, None, self.ends)

    @property
    def has_keys(self) -> bool:
        return self.keys is not None and self.keys.null_count < len(self.keys)

    def partitions_of_keys(self, partition_count: int, otherwise: Callable[[], int]) -> NDArray[np.uint16]:
        """Return the partition of each record, like `partition_of_key`; `otherwise` gives that of records without a
        key."""
        data = self.keys.buffers()[2]
        offsets = _offsets(self.keys)
        # Copying all keys at once and slicing `bytes` costs less than a view per key.
        own = b"" if data is None else bytes(memoryview(data)[offsets[0] : offsets[-1]])
        keys = [own[start:end] for start, end in pairwise((offsets - offsets[0]).tolist())]
        partitions = np.fromiter(map(crc32, keys), np.uint32, len(keys)) % partition_count
        if self.keys.null_count:
            partitions[self.keys.is_null().to_numpy(zero_copy_only=False)] = otherwise()
        return partitions.astype(np.uint16)  # small integers sort faster

    @staticmethod
    def grouped(partitions: NDArray[np.uint16]) -> dict[int, NDArray[np.int64]]:
        """Return the indices of each partition's records, in order."""
        if not len(partitions):
            return {}
        in_order = np.argsort(partitions, kind="stable")
        present, starts = np.unique(partitions[in_order], return_index=True)
        return dict(zip(present.tolist(), np.split(in_order, starts[1:]), strict=True))


def is_arrow(something: object) -> bool:
    """Return True for an Arrow array, chunked array, table or record batch."""
    return isinstance(something, pa.Array | pa.ChunkedArray | pa.Table | pa.RecordBatch)


@dataclass(frozen=True, slots=True)
class Given:
    """The columns given by the user, as parameters or as a table's columns of the same names."""

    values: Any
    keys: Any = None
    timestamps: Any = None
    headers: Any = None
    partitions: Any = None


def columns_of_table(table: Any) -> Given:
    """Return a table's columns. Raise `InvalidArgument` for an unknown column, rather than drop it silently."""
    unknown = [name for name in table.schema.names if name not in _COLUMNS]
    if unknown:
        raise InvalidArgument(
            f"the table has a column {unknown[0]!r}: those that can be sent are {', '.join(_COLUMNS)}"
        )
    if "value" not in table.schema.names:
        raise InvalidArgument("the table has no column 'value'")
    found = {name: table.column(name) for name in table.schema.names}
    return Given(found["value"], *(found.get(name) for name in _COLUMNS[1:]))


def arrow_columns(given: Given, now_ms: int) -> ArrowColumns:
    """Convert the given columns. Records without a timestamp get `now_ms`. Raise `InvalidArgument` if a column cannot
    be sent."""
    try:
        values = arrow_layout.binary_array(_bytes_array("values", given.values))
        keys = None if given.keys is None else arrow_layout.binary_array(_bytes_array("keys", given.keys))
        headers = None if given.headers is None else arrow_layout.headers_array(_headers_array(given.headers))
        timestamps = _timestamps(given.timestamps, now_ms)
    except InvalidArgument:
        raise
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, ValueError, TypeError) as error:
        raise InvalidArgument(f"a column that cannot be sent: {error}") from None
    for name, column in (("keys", keys), ("headers", headers), ("timestamps", timestamps)):
        if column is not None and not isinstance(column, int) and len(column) != len(values):
            raise InvalidArgument(f"there are {len(values)} values, and {len(column)} {name}")
    return ArrowColumns(values, keys, timestamps, headers, _ends(values, keys, headers))


def _bytes_array(name: str, items: Any) -> Any:
    if isinstance(items, pa.Array | pa.ChunkedArray):
        return items
    check_bytes_column(name, items)
    return pa.array(items, pa.binary())


def _headers_array(items: Any) -> Any:
    if isinstance(items, pa.Array | pa.ChunkedArray):
        return items
    pairs = check_header_lists(items)
    return pa.array([[{"key": key, "value": value} for key, value in each] for each in pairs], HEADERS_TYPE)


def _timestamps(timestamps: Any, now_ms: int) -> int | NDArray[np.int64]:
    if timestamps is None:
        return now_ms
    if isinstance(timestamps, int):
        return timestamps
    numbers = arrow_layout.timestamps_list(timestamps)
    if len(numbers):
        check_timestamp(int(numbers.min()))
        check_timestamp(int(numbers.max()))
    return numbers


def _offsets(array: Any) -> NDArray[np.int32]:
    if not len(array):
        return np.zeros(1, np.int32)
    return np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, 4 * array.offset)


def _ends(values: Any, keys: Any, headers: Any) -> NDArray[np.int64]:
    """Return the end of each record in bytes. Arrow offsets already are running sums of sizes."""
    ends = np.arange(1, len(values) + 1, dtype=np.int64) * RECORD_OVERHEAD_BYTES
    for column in (values, keys):
        if column is not None:
            offsets = _offsets(column)
            ends += offsets[1:]
            ends -= offsets[0]
    if headers is not None:
        pairs = arrow_layout.header_pairs(headers)
        ends += np.cumsum([record_bytes(None, None, each) - RECORD_OVERHEAD_BYTES for each in pairs], dtype=np.int64)
    return ends
