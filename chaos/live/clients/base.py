"""What all clients of a live cluster have in common: they go on until they are told to end."""

import asyncio
from dataclasses import dataclass
from typing import Protocol

from lograft.chaos.history.recorder import Recorder
from lograft.runtime.clock import LoopClock
from lograft.storage.batch.codec import Record


@dataclass(frozen=True, slots=True)
class Place:
    """Where the cluster is, and what of it is used."""

    bootstrap: str
    topic: str
    is_compacted: bool = False


class LiveClient(Protocol):
    """`run` returns soon after `ending` is set, when all that it had begun is known, or given up."""

    recorder: Recorder

    async def run(self, ending: asyncio.Event) -> None: ...


MARK = "value"
"""The header by which a record that deletes its key is known: it has no value."""


def value_of(record: Record) -> str:
    """What the sender made it known by."""
    if record.value is not None:
        return record.value.decode()
    return next((content or b"").decode() for name, content in record.headers if name == MARK)


async def pause(ending: asyncio.Event, milliseconds: float) -> None:
    """For a while, or until it is to end."""
    resting = asyncio.ensure_future(LoopClock().sleep_ms(milliseconds))
    told = asyncio.ensure_future(ending.wait())
    try:
        await asyncio.wait([resting, told], return_when=asyncio.FIRST_COMPLETED)
    finally:
        resting.cancel()
        told.cancel()
