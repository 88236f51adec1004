"""The bounded queue of messages to one peer; never blocks. Pure."""

from collections import deque

from lograft.raft.core.messages import AppendRequest, Envelope

_MESSAGE_OVERHEAD_BYTES = 64


class Outbox:
    """A queue that drops its oldest messages when it is full.

    It drops the oldest because newer Raft messages supersede older ones: later terms and rounds, acknowledgements and
    commit indexes that include the earlier ones. A gap is also detected by the message after it: if the newest entries
    were dropped, the peer would have nothing to refuse, and both sides would wait for each other.
    """

    def __init__(self, max_messages: int, max_bytes: int) -> None:
        self._max_messages = max_messages
        self._max_bytes = max_bytes
        self._queue: deque[tuple[Envelope, int]] = deque()
        self._size_bytes = 0
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._queue)

    def put(self, envelope: Envelope) -> None:
        """Add a message. One that exceeds the limit of the queue is queued alone."""
        size_bytes = size_of(envelope)
        self._queue.append((envelope, size_bytes))
        self._size_bytes += size_bytes
        while len(self._queue) > 1 and self._is_too_full():
            self._take_oldest()
            self.dropped += 1

    def take(self, max_bytes: int) -> list[Envelope]:
        """Remove and return the oldest messages within `max_bytes`, at least one if there is one."""
        taken: list[Envelope] = []
        taken_bytes = 0
        while self._queue and (not taken or taken_bytes + self._queue[0][1] <= max_bytes):
            taken_bytes += self._queue[0][1]
            taken.append(self._take_oldest())
        return taken

    def clear(self) -> None:
        self._queue.clear()
        self._size_bytes = 0

    def _is_too_full(self) -> bool:
        return len(self._queue) > self._max_messages or self._size_bytes > self._max_bytes

    def _take_oldest(self) -> Envelope:
        envelope, size_bytes = self._queue.popleft()
        self._size_bytes -= size_bytes
        return envelope


def size_of(envelope: Envelope) -> int:
    """Return the approximate size of a message on the wire, in bytes."""
    message = envelope.message
    entries = message.entries if isinstance(message, AppendRequest) else ()
    return _MESSAGE_OVERHEAD_BYTES + sum(entry.size_bytes for entry in entries)
