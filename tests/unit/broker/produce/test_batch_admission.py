"""Which batches are opened where, before they are stored, and that a few large ones do not fill the memory."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from support.log_services import settle
from support.raft_nodes import virtual
from support.served_replicas import NOW_MS, batch

from lograft.broker.produce import batch_admission as admitting
from lograft.runtime.clock import LoopClock
from lograft.storage.batch.codec import encode_batch
from lograft.storage.batch.compression import Compression
from lograft.storage.batch.header import MAGIC_COLUMNS, MAGIC_ROWS
from lograft.storage.errors import TruncatedBatch
from lograft.storage.log.log_config import LogConfig

CHECKED = LogConfig(validate_batches=True)


def packed(size: int, compression: Compression, magic: int = MAGIC_COLUMNS) -> bytes:
    return encode_batch([bytes(size)], keys=[b"k"], timestamps=NOW_MS, magic=magic, compression=compression)


@pytest.mark.parametrize(
    ("content", "config", "is_quick"),
    [
        (batch(size=2**19), LogConfig(), True),
        (batch(size=2**19), LogConfig(append_time=True), True),
        (packed(2**19, Compression.NONE), LogConfig(cleanup_compact=True), False),
        (packed(1, Compression.NONE), LogConfig(cleanup_compact=True), True),
        (batch("a"), LogConfig(compression=Compression.LZ4), True),
        (batch(size=2**19), LogConfig(compression=Compression.LZ4), False),
        (batch(size=2**19), LogConfig(compression=Compression.NONE), True),
        (packed(100, Compression.LZ4), CHECKED, True),
        (packed(100, Compression.LZ4), LogConfig(compression=Compression.NONE), True),
        (packed(2**19, Compression.ZSTD), CHECKED, False),
        (packed(2**19, Compression.ZSTD), LogConfig(), True),
        (packed(2**19, Compression.ZSTD), LogConfig(compression=Compression.ZSTD), True),
        (packed(2**19, Compression.ZSTD), LogConfig(compression=Compression.NONE), False),
        (packed(2**19, Compression.ZSTD), LogConfig(cleanup_compact=True), False),
        (packed(5000, Compression.NONE, MAGIC_ROWS), LogConfig(), False),
        (packed(1000, Compression.NONE, MAGIC_ROWS), LogConfig(), True),
        (packed(5000, Compression.GZIP, MAGIC_ROWS), LogConfig(), True),
    ],
)
def test_only_what_takes_long_to_open_goes_beside_the_loop(content: bytes, config: LogConfig, is_quick: bool) -> None:
    """A few bytes may be any number once they are decompressed, whatever they say."""
    assert (admitting.admit_quickly(content, config, NOW_MS) is not None) is is_quick
    assert admitting.admit_now(content, config, NOW_MS).header.record_count == 1


def test_what_is_no_batch_is_refused_at_once() -> None:
    with pytest.raises(TruncatedBatch):
        admitting.admit_quickly(b"short", LogConfig(compression=Compression.LZ4), NOW_MS)


@virtual
async def test_batches_that_may_become_large_are_opened_a_few_at_once() -> None:
    """One of a kilobyte takes 64 MiB: a hundred together would take all there is."""
    blocking = HeldBlocking()
    queue = admitting.AdmissionQueue(LoopClock(), blocking)
    admissions = [asyncio.ensure_future(queue.admit(packed(2**19, Compression.ZSTD), CHECKED)) for _ in range(100)]
    most = 0
    admissions[0].cancel()  # whoever sent it is gone: it is opened all the same
    while not all(admission.done() for admission in admissions):
        await settle()
        most = max(most, len(blocking.held))
        blocking.release_one()
    assert most == 2
    assert [admission.cancelled() for admission in admissions].count(True) == 1


class HeldBlocking:
    """Runs a function once it is let."""

    def __init__(self) -> None:
        self.held: list[asyncio.Event] = []

    async def run_blocking(self, function: Callable[..., Any], *arguments: Any) -> Any:
        let = asyncio.Event()
        self.held.append(let)
        await let.wait()
        self.held.remove(let)
        return function(*arguments)

    def release_one(self) -> None:
        if self.held:
            self.held[0].set()

    async def close(self) -> None:
        return
