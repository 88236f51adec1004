"""Encoding and decoding batches of 1 MiB, in nanoseconds a record."""

from collections.abc import Callable, Sequence
from functools import partial
from statistics import median

from measure import Aim, Result, nanoseconds_each, take_turns
from samples import Sample, make_sample

from lograft.storage.batch.codec import (
    MAGIC_ROWS,
    Compression,
    decode_arrow,
    decode_columns,
    decode_records,
    encode_arrow,
    encode_batch,
)

ENCODE_AIM = Aim(500, "< 500 ns")
ARROW_DECODE_AIM = Aim(20, "< 20 ns")


async def measure_codec(record_bytes: int, label: str, rounds: int) -> list[Result]:
    """Each layout, from and to what it is used with."""
    sample = make_sample(record_bytes)
    count = len(sample.values)
    columns, rows = _encoder(sample)(), _encoder(sample, magic=MAGIC_ROWS)()
    contenders: dict[str, tuple[Callable[[], object], int, Aim | None]] = {
        "columns encode, from lists": (_encoder(sample), 10, ENCODE_AIM),
        "columns decode, to Record tuples": (partial(decode_records, columns), 5, None),
        "columns decode, to lists": (partial(decode_columns, columns), 5, None),
        "Arrow encode": (partial(encode_arrow, **sample.arrow), 50, None),
        "Arrow decode": (partial(decode_arrow, columns), 100, ARROW_DECODE_AIM),
        "rows encode, from lists": (_encoder(sample, magic=MAGIC_ROWS), 1, None),
        "rows decode, to Record tuples": (partial(decode_records, rows), 1, None),
    }
    samples = await take_turns(
        rounds,
        {name: nanoseconds_each(function, count, times) for name, (function, times, _) in contenders.items()},
    )
    return [
        Result(
            f"Codec, records of {label}",
            name,
            median(samples[name]),
            "ns/record",
            aim=aim,
            note=f"{median(samples[name]) * count / 1000:,.0f} us a batch",
        )
        for name, (_, _, aim) in contenders.items()
    ]


async def measure_compression(record_bytes: int, label: str, rounds: int) -> list[Result]:
    """Columns under every compression, from lists and to Record tuples."""
    sample = make_sample(record_bytes)
    count = len(sample.values)
    plain_bytes = len(_encoder(sample)())
    results = []
    for compression in Compression:
        encode = _encoder(sample, compression=compression)
        encoded = encode()
        samples = await take_turns(
            rounds,
            {
                "encode": nanoseconds_each(encode, count, 1),
                "decode": nanoseconds_each(partial(decode_records, encoded), count, 1),
            },
        )
        note = f"{len(encoded) / plain_bytes:.0%} of the size"
        results += [
            Result(
                f"Compression of columns, records of {label}",
                f"{compression.name.lower()} {action}",
                median(samples[action]),
                "ns/record",
                note=note,
            )
            for action in ("encode", "decode")
        ]
    return results


def _encoder(sample: Sample, **options: int) -> Callable[[], bytes]:
    encode: Callable[..., bytes] = encode_batch
    keys: Sequence[bytes] = sample.keys
    return partial(encode, sample.values, keys=keys, timestamps=sample.timestamps, **options)
