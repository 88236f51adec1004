"""The records that benchmarks encode and append: compressible, as most data is, and the same in every run."""

import random
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from measure import MEBIBYTE

from lograft.storage.batch.codec import encode_batch

KEY_BYTES = 12
FIRST_TIMESTAMP_MS = 1_700_000_000_000
_RECORDS_PER_MS = 20
_COLUMNS_OVERHEAD_BYTES = 16  # a record: timestamp, and the ends of key and value
_BATCH_OVERHEAD_BYTES = 256
_WORDS = [b"order", b"paid", b"shipped", b"user", b"amount", b"region", b"true", b"null", b"EUR", b"returned"]


@dataclass(frozen=True)
class Sample:
    """The records of one batch, as lists and as Arrow arrays."""

    keys: list[bytes]
    values: list[bytes]
    timestamps: list[int]

    @cached_property
    def arrow(self) -> dict[str, Any]:
        """The keyword arguments of `encode_arrow`."""
        import pyarrow as pa

        return {
            "values": pa.array(self.values, pa.binary()),
            "keys": pa.array(self.keys, pa.binary()),
            "timestamps": pa.array(self.timestamps, pa.timestamp("ms")),
        }


def make_sample(record_bytes: int, batch_bytes: int = MEBIBYTE, seed: int = 1) -> Sample:
    """Records of `record_bytes` each, key and value, as many as a batch of at most `batch_bytes` holds."""
    rng = random.Random(seed)
    count = (batch_bytes - _BATCH_OVERHEAD_BYTES) // (record_bytes + _COLUMNS_OVERHEAD_BYTES)
    return Sample(
        keys=[b"key-%08d" % rng.randrange(10**8) for _ in range(count)],
        values=[_make_value(rng, record_bytes - KEY_BYTES) for _ in range(count)],
        timestamps=[FIRST_TIMESTAMP_MS + number // _RECORDS_PER_MS for number in range(count)],
    )


def make_batches(record_bytes: int, batch_bytes: int = MEBIBYTE, count: int = 8) -> list[bytes]:
    """Several columns batches of nearly `batch_bytes`, all different and all of one size."""
    samples = [make_sample(record_bytes, batch_bytes, seed) for seed in range(count)]
    return [encode_batch(sample.values, keys=sample.keys, timestamps=sample.timestamps) for sample in samples]


def _make_value(rng: random.Random, size: int) -> bytes:
    parts = []
    length = 0
    while length < size:
        parts.append(b'"%s":%d,' % (rng.choice(_WORDS), rng.randrange(10**6)))
        length += len(parts[-1])
    return b"".join(parts)[:size]
