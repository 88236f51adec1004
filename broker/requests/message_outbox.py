"""Outgoing data of a stream, packed into messages. Batches are copied once, into their message. Pure."""

from collections.abc import Iterator, Sequence

from lograft.runtime.files import Buffer

# Parts are packed into one message up to this size. A single larger part gets a message of its own.
_MESSAGE_BYTES = 4 * 1024 * 1024


class MessageOutbox:
    """Packs parts into messages, in the order of `add`. `size_bytes`: the size of all parts not taken yet."""

    def __init__(self) -> None:
        self._messages: list[list[Buffer]] = []
        self._last_bytes = 0
        self.size_bytes = 0

    def take(self) -> Iterator[bytes]:
        """Remove all messages and yield them in order."""
        messages, self._messages = self._messages, []
        self.size_bytes = self._last_bytes = 0
        for parts in messages:
            yield b"".join(parts)

    def add(self, parts: Sequence[Buffer]) -> None:
        """Append parts that belong to one message."""
        size = sum(map(len, parts))
        if not self._messages or self._last_bytes + size > _MESSAGE_BYTES:
            self._messages.append([])
            self._last_bytes = 0
        self._messages[-1] += parts
        self._last_bytes += size
        self.size_bytes += size
