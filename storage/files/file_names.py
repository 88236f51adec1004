"""The names of a partition's files. Pure."""

import re
from dataclasses import dataclass
from uuid import UUID

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
PRODUCERS_SUFFIX = ".producers"
CLEANED_SUFFIX = ".cleaned"  # compaction's output while it is written
SWAP_SUFFIX = ".swap"  # compaction's complete output, about to replace its source segments
TEMPORARY_SUFFIX = ".tmp"

_NUMBERED = re.compile(r"([0-9]{20})(\.[a-z]+)")
_SWAP = re.compile(r"([0-9]{20})-([0-9]{20})\.swap")
_PARTITION = re.compile(r"([A-Za-z0-9._-]{1,180})-(0|[1-9][0-9]{0,8})\.([0-9a-f]{32})")


def numbered(offset: int, suffix: str) -> str:
    """`00000000000000000042.log`"""
    return f"{offset:020d}{suffix}"


def parse_numbered(name: str) -> tuple[int, str] | None:
    """Return the offset and suffix of a numbered name, or None if it is of another kind."""
    match = _NUMBERED.fullmatch(name)
    return (int(match[1]), match[2]) if match else None


def swap_name(base_offset: int, limit: int) -> str:
    """Return a compacted segment that replaces all segments whose base is in [base_offset, limit)."""
    return f"{base_offset:020d}-{limit:020d}{SWAP_SUFFIX}"


def parse_swap(name: str) -> tuple[int, int] | None:
    match = _SWAP.fullmatch(name)
    return (int(match[1]), int(match[2])) if match else None


@dataclass(frozen=True, slots=True)
class PartitionName:
    """The replica a directory holds. A topic that is deleted and recreated has another id, hence another directory."""

    topic: str
    partition: int
    topic_id: UUID

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}.{self.topic_id.hex}"

    @classmethod
    def parse(cls, name: str) -> "PartitionName | None":
        """Return the inverse of `str`, or None for a directory of another kind."""
        match = _PARTITION.fullmatch(name)
        return cls(match[1], int(match[2]), UUID(match[3])) if match else None
