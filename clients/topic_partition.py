"""Names that go in and out of the client library. Pure."""

from typing import NamedTuple


class TopicPartition(NamedTuple):
    """One partition of a topic."""

    topic: str
    partition: int


class RecordMetadata(NamedTuple):
    """Where a record was stored. The timestamp is in milliseconds.

    `offset` -1: it is not known, because nobody was asked (`acks=0`), or it was stored too long ago.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
