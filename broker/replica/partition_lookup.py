"""Lookup of the partitions in a client's request, and translation of errors for clients."""

from collections.abc import Callable, Collection, Iterator
from functools import lru_cache
from uuid import UUID

from lograft.broker.replica.interfaces import ReplicaFacts, ServedReplica, ServedReplicas
from lograft.broker.requests.service_errors import NotReadable, ReaderParted, detail_of, stream_error_of
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import TopicId
from lograft.proto import errors_pb2
from lograft.proto.errors_pb2 import ErrorDetail
from lograft.rpc.coded_error import ReplicaError
from lograft.runtime.network import StreamError

_UUID_BYTES = 16
_NO_EPOCH = -1


class PartitionLookup:
    """`image`: the cluster image of this broker."""

    def __init__(self, replicas: ServedReplicas, image: Callable[[], ClusterImage]) -> None:
        self._replicas = replicas
        self._image = image

    def find(self, topic_id: bytes, number: int) -> ServedReplica:
        """Return this broker's replica of the partition. Raise `ReplicaError` if there is none."""
        if len(topic_id) != _UUID_BYTES:
            raise ReplicaError(
                errors_pb2.INVALID_REQUEST, f"topic_id must be a UUID of {_UUID_BYTES} bytes, not {len(topic_id)}"
            )
        return self._replicas.get(_topic_id(topic_id), number)

    def find_named(self, name: str, topic_id: bytes, number: int) -> ServedReplica:
        """Return the replica of a partition whose topic is given by name, id, or both."""
        if not name:
            return self.find(topic_id, number)
        topic = self._image().topic(name)
        if topic is None:
            raise ReplicaError(errors_pb2.UNKNOWN_TOPIC, f"there is no topic {name!r}: create it first")
        if topic_id and topic_id != topic.topic_id.bytes:
            raise ReplicaError(
                errors_pb2.UNKNOWN_TOPIC_ID,
                f"topic {name!r} was recreated with id {topic.topic_id}: look its id up again",
            )
        return self._replicas.get(topic.topic_id, number)

    def name_of(self, topic_id: bytes) -> str:
        """Return the topic's name, or its id if the name is unknown."""
        topic = self._image().topics.get(_topic_id(topic_id)) if len(topic_id) == _UUID_BYTES else None
        return topic.name if topic is not None else topic_id[:_UUID_BYTES].hex()

    def facts(self, names: Collection[str]) -> Iterator[tuple[str, ReplicaFacts]]:
        """Yield this broker's replicas of these topics, or of all if none are given, with the topics' names."""
        topics = self._image().topics
        for facts in self._replicas.facts():
            topic = topics.get(facts.topic_id)
            if topic is not None and (not names or topic.name in names):
                yield topic.name, facts

    def detail(self, error: Exception) -> ErrorDetail:
        """Return the error as sent to clients. `error`: one of SERVICE_ERRORS."""
        return detail_of(error, self._image())

    def stream_error(self, error: Exception) -> StreamError:
        """Return the error that ends the whole call."""
        return stream_error_of(self.detail(error))


@lru_cache(maxsize=4096)
def _topic_id(data: bytes) -> TopicId:
    """Return the id; cached, because the same few ids come with every batch."""
    return TopicId(UUID(bytes=data))


def epoch_given(leader_epoch: int, is_present: bool) -> int | None:
    """Return the leader epoch of a request, or None if it has none."""
    return leader_epoch if is_present and leader_epoch != _NO_EPOCH else None


def check_size(given: int, field: str, default: int, most: int) -> int:
    """Return the requested size, or the default for 0. Raise INVALID_REQUEST if it is out of range."""
    if not 0 <= given <= most:
        raise ReplicaError(
            errors_pb2.INVALID_REQUEST, f"{field} cannot be {given}: expected 1 to {most}, or 0 for {default}"
        )
    return given or default


def known_watermark(replica: ServedReplica) -> int | None:
    return replica.high_watermark if replica.watermark_is_known else None


def check_writable(replica: ServedReplica) -> None:
    """Raise for an internal topic."""
    if replica.is_internal:
        raise ReplicaError(
            errors_pb2.INVALID_TOPIC, "the topic is internal, and only brokers may write to it: use another topic"
        )


def check_offset(replica: ServedReplica, offset: int) -> None:
    """Raise unless `offset` is valid for a reader. Between high watermark and log end the reader waits: a new leader
    may not know yet how far the log is committed."""
    if not replica.log_start <= offset <= replica.log_end:
        raise not_readable(replica, offset)


def check_past(replica: ServedReplica, last_epoch: int, offset: int) -> None:
    """Raise if a reader at `offset`, after a record of `last_epoch`, has read records that are not in the log."""
    parting = replica.reader_parts_at(last_epoch, offset)
    if parting is not None:
        raise ReaderParted(offset, replica.log_start, parting) if replica.is_leader else not_readable(replica, offset)


def not_readable(replica: ServedReplica, offset: int) -> Exception:
    """Return the error for an unreadable offset. Only a leader knows the valid range: its log may have an offset that a
    follower lacks."""
    if not replica.is_leader:
        return ReplicaError(
            errors_pb2.OFFSET_NOT_AVAILABLE,
            f"this broker is a follower, and does not have offset {offset}: ask the leader",
        )
    return NotReadable(offset, replica.log_start, known_watermark(replica))
