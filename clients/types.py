"""Types in the client library's interface. Pure."""

from typing import NamedTuple

from lograft.clients.errors import InvalidArgument

MAX_INTEGER = 2**63 - 1
"""The largest offset or timestamp."""

HIDDEN_PREFIX = "lograft-spark-"
"""The prefix of topics that the Spark connector keeps for itself. They are ordinary topics, but lists leave them out as
they do internal ones."""


class TopicPartition(NamedTuple):
    """One partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class RecordMetadata(NamedTuple):
    """Where a record was stored. The timestamp is in milliseconds.

    `offset` is -1 if unknown: the producer did not wait for an acknowledgment (`acks=0`), or the record is a duplicate
    that was stored too long ago.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int


class OffsetAndMetadata(NamedTuple):
    """A group's committed position in a partition: the offset of the next record to read, metadata of the application's
    choice (up to 4 KiB of text), and the leader epoch of the previous record, if known."""

    offset: int
    metadata: str = ""
    leader_epoch: int | None = None


def check_topic(topic: object) -> None:
    """Raise `InvalidArgument` if this cannot be a topic name."""
    if not isinstance(topic, str) or not (topic.isascii() or is_text(topic)):
        raise InvalidArgument(f"the topic is {topic!r}: give its name, a string")


def partition_name(partition: object) -> TopicPartition:
    """Convert a user's (topic, number) to a `TopicPartition`. Raise `InvalidArgument` for anything else."""
    match partition:
        case (str(topic), int(number)) if is_text(topic):
            return TopicPartition(topic, number)
    raise InvalidArgument(f"{partition!r} is not a partition: give TopicPartition(topic, number)")


def is_text(text: str) -> bool:
    """Return True if the text can be encoded as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
