"""Log entries, hard state and snapshot metadata. Pure."""

from dataclasses import dataclass

from lograft.raft.core.configuration import Configuration, Member

ENTRY_OVERHEAD_BYTES = 32


@dataclass(frozen=True, slots=True)
class NoOperation:
    """A new leader's first entry. Committing it commits everything before it."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command for the state machine."""

    data: bytes


@dataclass(frozen=True, slots=True)
class NewConfiguration:
    """In force from the moment it is in the log, committed or not."""

    configuration: Configuration


Payload = NoOperation | Command | NewConfiguration


@dataclass(frozen=True, slots=True)
class Entry:
    index: int
    term: int
    payload: Payload

    @property
    def size_bytes(self) -> int:
        return ENTRY_OVERHEAD_BYTES + (len(self.payload.data) if isinstance(self.payload, Command) else 0)


@dataclass(frozen=True, slots=True)
class HardState:
    """State a node must not forget: the latest term, its vote in that term, and the commit index it knows."""

    term: int = 0
    vote: Member | None = None
    commit_index: int = 0


@dataclass(frozen=True, slots=True)
class SnapshotMetadata:
    """A snapshot replaces the log up to `index`; `configuration` is the one in force there."""

    index: int
    term: int
    configuration: Configuration


NEW = HardState()
NOTHING = SnapshotMetadata(0, 0, Configuration())
