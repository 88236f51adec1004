"""Checks of a single answer to a client, when it arrives: only then are the log starts known at that time. Pure."""

from lograft.chaos.cluster.checks.history import ClusterHistory, PartitionKey, Read, named, require


def check_next(history: ClusterHistory, before: Read | None, read: Read) -> None:
    """Check the next record of a consumer that began at offset 0: it receives every record, in order, except those
    deleted by retention or compacted away. Whether those may be gone is checked at the end. In another generation its
    offset may go back, but no record is skipped. If its earlier records are gone, it must not continue as if they were
    there, which is also checked at the end."""
    expected = 0 if before is None else before.offset + 1
    is_elected = before is not None and _generation(history, before) != _generation(history, read)
    if read.offset == expected or (is_elected and read.offset < expected):
        return
    is_deleted = expected < read.offset <= history.starts.get(read.key, 0)
    is_cleaned = expected < read.offset and read.key[0] in history.compacted_topics
    require(is_deleted or is_cleaned, "no gaps", f"{read.reader} was to get {expected}, and got", read)


def _generation(history: ClusterHistory, read: Read) -> int:
    return history.generation(read.key, read.leader_epoch)


def check_told_range(history: ClusterHistory, key: PartitionKey, start: int | None, end: int | None) -> None:
    """Check the range returned to a client that asked for offset 0 in vain: retention deleted what preceded it."""
    is_possible = key[0] in history.limited_topics and start is not None and start > 0
    require(is_possible, "nothing is deleted that is to be kept", named(key), "starts at", start)
    require(end is None or (start is not None and start <= end), "what is there is told", named(key), start, end)
