"""The partitions that a client's request is about: found by topic and number, and errors told as clients are told."""

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
    """`image`: the cluster as this broker knows it."""

    def __init__(self, replicas: ServedReplicas, image: Callable[[], ClusterImage]) -> None:
        self._replicas = replicas
        self._image = image

    def find(self, topic_id: bytes, number: int) -> ServedReplica:
        """This broker's replica of the partition. `ReplicaError` if there is none."""
        if len(topic_id) != _UUID_BYTES:
            raise ReplicaError(
                errors_pb2.INVALID_REQUEST, f"topic_id is a UUID of {_UUID_BYTES} bytes, not {len(topic_id)} of them"
            )
        return self._replicas.get(_topic_id(topic_id), number)

    def find_named(self, name: str, topic_id: bytes, number: int) -> ServedReplica:
        """As `find`, for a topic that is meant by its name, its id, or both."""
        if not name:
            return self.find(topic_id, number)
        topic = self._image().topic(name)
        if topic is None:
            raise ReplicaError(errors_pb2.UNKNOWN_TOPIC, f"there is no topic {name!r}: create it first")
        if topic_id and topic_id != topic.topic_id.bytes:
            raise ReplicaError(
                errors_pb2.UNKNOWN_TOPIC_ID,
                f"topic {name!r} was created anew, and has the id {topic.topic_id} now: ask for its id again",
            )
        return self._replicas.get(topic.topic_id, number)

    def name_of(self, topic_id: bytes) -> str:
        """For people: the topic's name, or its id if there is none of that id."""
        topic = self._image().topics.get(_topic_id(topic_id)) if len(topic_id) == _UUID_BYTES else None
        return topic.name if topic is not None else topic_id[:_UUID_BYTES].hex()

    def facts(self, names: Collection[str]) -> Iterator[tuple[str, ReplicaFacts]]:
        """Of this broker's replicas of these topics, or of all; with the topics' names."""
        topics = self._image().topics
        for facts in self._replicas.facts():
            topic = topics.get(facts.topic_id)
            if topic is not None and (not names or topic.name in names):
                yield topic.name, facts

    def detail(self, error: Exception) -> ErrorDetail:
        """As it goes into an answer; `error` is one of SERVICE_ERRORS."""
        return detail_of(error, self._image())

    def stream_error(self, error: Exception) -> StreamError:
        """As a call ends that fails as a whole."""
        return stream_error_of(self.detail(error))


@lru_cache(maxsize=4096)
def _topic_id(data: bytes) -> TopicId:
    """The same few come with every batch."""
    return TopicId(UUID(bytes=data))


def epoch_given(leader_epoch: int, is_present: bool) -> int | None:
    """The leader epoch that a request names, if it does."""
    return leader_epoch if is_present and leader_epoch != _NO_EPOCH else None


def check_size(given: int, field: str, default: int, most: int) -> int:
    """How much of something a request asks for; 0 is the default."""
    if not 0 <= given <= most:
        raise ReplicaError(
            errors_pb2.INVALID_REQUEST, f"{field} cannot be {given}: give 1 to {most}, or 0 for {default}"
        )
    return given or default


def known_watermark(replica: ServedReplica) -> int | None:
    return replica.high_watermark if replica.watermark_is_known else None


def check_writable(replica: ServedReplica) -> None:
    """Raise for one of the cluster's own topics."""
    if replica.is_internal:
        raise ReplicaError(
            errors_pb2.INVALID_TOPIC, "the topic is the cluster's own, and only brokers write there: name another one"
        )


def check_offset(replica: ServedReplica, offset: int) -> None:
    """Raise unless a reader may be at `offset`. Between watermark and end it waits: a new leader may not know yet how
    far it is committed."""
    if not replica.log_start <= offset <= replica.log_end:
        raise not_readable(replica, offset)


def check_past(replica: ServedReplica, last_epoch: int, offset: int) -> None:
    """Raise if a reader, who is at `offset` after a record of `last_epoch`, has read what is not in the log."""
    parting = replica.reader_parts_at(last_epoch, offset)
    if parting is not None:
        raise ReaderParted(offset, replica.log_start, parting) if replica.is_leader else not_readable(replica, offset)


def not_readable(replica: ServedReplica, offset: int) -> Exception:
    """What a follower does not have may well be there: only a leader knows the range."""
    if not replica.is_leader:
        return ReplicaError(
            errors_pb2.OFFSET_NOT_AVAILABLE,
            f"this broker follows the partition, and does not have offset {offset}: ask the leader",
        )
    return NotReadable(offset, replica.log_start, known_watermark(replica))
