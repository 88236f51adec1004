"""The common part of all clients of a live cluster, which run until they are asked to end."""

import asyncio
from dataclasses import dataclass
from typing import Protocol

from lograft.chaos.history.recorder import Recorder
from lograft.runtime.clock import LoopClock
from lograft.storage.batch.codec import Record


@dataclass(frozen=True, slots=True)
class Place:
    """The address of a cluster, and the topic used there."""

    bootstrap: str
    topic: str
    is_compacted: bool = False


class LiveClient(Protocol):
    """A client. `run` returns soon after `ending` is set, once each operation it began has ended or is given up."""

    recorder: Recorder

    async def run(self, ending: asyncio.Event) -> None: ...


MARK = "value"
"""The header that identifies a record that deletes its key, because such a record has no value."""


def value_of(record: Record) -> str:
    """Return the value by which the sender identifies a record."""
    if record.value is not None:
        return record.value.decode()
    return next((content or b"").decode() for name, content in record.headers if name == MARK)


async def pause(ending: asyncio.Event, milliseconds: float) -> None:
    """Wait for a while, or until `ending` is set."""
    resting = asyncio.ensure_future(LoopClock().sleep_ms(milliseconds))
    told = asyncio.ensure_future(ending.wait())
    try:
        await asyncio.wait([resting, told], return_when=asyncio.FIRST_COMPLETED)
    finally:
        resting.cancel()
        told.cancel()
