"""Names that go in and out of the client library. Pure."""

from typing import NamedTuple

from lograft.clients.errors import InvalidArgument

MAX_INTEGER = 2**63 - 1
"""Of offsets and times."""


class TopicPartition(NamedTuple):
    """One partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class RecordMetadata(NamedTuple):
    """Where a record was stored. The timestamp is in milliseconds.

    `offset` -1: it is not known, because nobody was asked (`acks=0`), or it was stored too long ago.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int


class OffsetAndMetadata(NamedTuple):
    """How far a group has come in a partition: the offset of the next record to read, whatever the application wants to
    keep with it (up to 4 KiB of text), and the leader epoch of the record before, if that is known."""

    offset: int
    metadata: str = ""
    leader_epoch: int | None = None


def check_topic(topic: object) -> None:
    """`InvalidArgument` for what cannot be the name of one."""
    if not isinstance(topic, str) or not (topic.isascii() or is_text(topic)):
        raise InvalidArgument(f"the topic is {topic!r}: give its name, a string")


def partition_name(partition: object) -> TopicPartition:
    """What a user means by a partition. `InvalidArgument` for what cannot be one."""
    match partition:
        case (str(topic), int(number)) if is_text(topic):
            return TopicPartition(topic, number)
    raise InvalidArgument(f"{partition!r} is not a partition: give TopicPartition(topic, number)")


def is_text(text: str) -> bool:
    """Whether it can be written as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
