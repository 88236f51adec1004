"""What is written down of a consumer's polls."""

import asyncio
import io
from types import SimpleNamespace
from typing import Any

from lograft.chaos.history.entries import Poll, Polled, PolledPartition
from lograft.chaos.history.history import HistoryWriter, read_history
from lograft.chaos.history.recorder import Recorder
from lograft.chaos.live.clients.readers import Polling
from lograft.clients.types import TopicPartition
from lograft.runtime.clock import LoopClock
from lograft.storage.batch.codec import Record

CHAOS_0 = TopicPartition("chaos", 0)


class Consumer:
    """Gives what it is told to."""

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self._reader = SimpleNamespace(positions=lambda: {CHAOS_0: SimpleNamespace(offset=self.offsets[-1] + 1)})

    async def poll(self, _seconds: float) -> list[Record]:
        return [Record("chaos", 0, offset, 0, None, b"v%d" % offset, ()) for offset in self.offsets]


def test_who_gets_a_partition_back_begins_where_the_group_is() -> None:
    """A member whose session was over lost it, and got it again, within one poll: it need not go on from its place."""
    sink, consumer = io.StringIO(), Consumer()
    given: Any = consumer

    async def live() -> None:
        polling = Polling(Recorder("m", HistoryWriter(sink), LoopClock()), given, "readers")
        for offsets, is_given_anew in ([0, 1, 2], False), ([3, 4], False), ([3, 4, 5], True):
            consumer.offsets = offsets
            if is_given_anew:
                polling.fresh[CHAOS_0] = None
            await polling.poll()

    asyncio.run(live())
    sink.seek(0)
    parts: list[PolledPartition] = []
    for poll in read_history(sink).of(Poll):
        assert isinstance(poll.completion, Polled)
        parts += poll.completion.parts
    assert [(part.before, part.after, part.is_fresh) for part in parts] == [
        (None, 3, True),
        (3, 5, False),
        (None, 6, True),
    ]
