"""The state machine of simulated Raft nodes: values by key, and a digest of every command ever applied."""

import json
import zlib
from dataclasses import dataclass
from enum import Enum

Value = tuple[str, ...]


class Kind(Enum):
    """Operations on a key: read it, append to its list, or replace the list by one item."""

    READ = "read"
    APPEND = "append"
    WRITE = "write"


@dataclass(frozen=True, slots=True)
class Digest:
    """Stands for a sequence of commands: their number, and a checksum in their order."""

    count: int = 0
    checksum: int = 0

    def after(self, data: bytes) -> "Digest":
        return Digest(self.count + 1, zlib.crc32(data, self.checksum))


def command(kind: Kind, key: str, item: str) -> bytes:
    """Encode a command for the log. Items are unique, so that each command can be recognised wherever it appears."""
    assert kind is not Kind.READ
    return f"{kind.value} {key} {item}".encode()


class RegisterMachine:
    """A deterministic state machine. `apply` returns the index, and the key's value after the command."""

    def __init__(self) -> None:
        self.applied_index = 0
        self.digest = Digest()
        self._values: dict[str, Value] = {}

    def apply(self, index: int, data: bytes) -> tuple[int, Value]:
        kind, key, item = data.decode().split(" ")
        before = self._values.get(key, ()) if Kind(kind) is Kind.APPEND else ()
        self._values[key] = (*before, item)
        self.applied_index = index
        self.digest = self.digest.after(data)
        return index, self._values[key]

    def read(self, key: str) -> Value:
        return self._values.get(key, ())

    def snapshot(self) -> bytes:
        state = [self.applied_index, self.digest.count, self.digest.checksum, self._values]
        return json.dumps(state).encode()

    def restore(self, data: bytes) -> None:
        self.applied_index, count, checksum, values = json.loads(data)
        self.digest = Digest(count, checksum)
        self._values = {key: tuple(value) for key, value in values.items()}
