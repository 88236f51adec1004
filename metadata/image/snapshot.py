"""An image as records, and those as bytes: whole, or in parts for a stream. Pure.

Measured: a partition takes about 95 bytes; zlib reduces that to a quarter, and takes a tenth more time. So snapshots
stay uncompressed: a megabyte for ten thousand partitions is not worth it.
"""

from collections.abc import Iterator

from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.record_codec import decode_records, encode_record
from lograft.metadata.image.records import (
    BrokerEpochsUsed,
    BrokerRegistered,
    ConfigChanged,
    FeatureLevelChanged,
    PartitionChanged,
    ProducerIdsAllocated,
    Record,
    TopicCreated,
    TopicDeleted,
)
from lograft.proto import metadata_pb2 as pb
from lograft.proto.wire_format import CodecError
from lograft.raft.store.state_codec import parse

_CONFIRMED_A_RECORD = 1000  # about 30 KB: no record should be much larger than the parts that carry it
_FRAME_BYTES = 24
"""What a part has at most besides its records: its sequence, its number, whether it is the last."""


def records_of(image: ClusterImage) -> Iterator[Record]:
    """Yield the records that, applied to an empty image in this order, make it equal to this one except for its
    sequence."""
    yield FeatureLevelChanged(image.feature_level)
    for broker in image.brokers.values():
        yield BrokerRegistered(broker)
    # Unregistered brokers had epochs, too.
    yield BrokerEpochsUsed(image.last_broker_epoch)
    confirmed = tuple(image.confirmed.items())
    for start in range(0, len(confirmed), _CONFIRMED_A_RECORD):
        yield BrokerEpochsUsed(image.last_broker_epoch, confirmed[start : start + _CONFIRMED_A_RECORD])
    # From the one forgotten first on. Before the topics: this record would delete a topic.
    for topic_id in image.deleted_topics:
        yield TopicDeleted(topic_id)
    for topic in image.topics.values():
        yield TopicCreated(topic.topic_id, topic.name)
        for number, partition in topic.partitions.items():
            yield PartitionChanged(topic.topic_id, number, partition)
    for resource, values in image.configs.items():
        for key, value in values.items():
            yield ConfigChanged(resource, key, value)
    yield ProducerIdsAllocated(image.next_producer_id)


def encode_snapshot(image: ClusterImage) -> bytes:
    """Return the image in one part, whatever its size."""
    (data,) = split(image, max_bytes=None)
    return data


def decode_snapshot(data: bytes) -> ClusterImage:
    """Return the image that `encode_snapshot` encoded. Raise `CodecError` if `data` is something else, or
    incomplete."""
    image = SnapshotBuilder().take(data)
    if image is None:
        raise CodecError("a part of a snapshot, where a whole one should be, or one cut short")
    return image


def split(image: ClusterImage, max_bytes: int | None) -> Iterator[bytes]:
    """Yield the image in parts of at most `max_bytes` (a larger record has a part to itself), for a `SnapshotBuilder`.

    Parts are made one by one; until the last, the image must not change.
    """
    part = pb.MetadataSnapshot(sequence=image.sequence)
    size_bytes = _FRAME_BYTES
    for record in records_of(image):
        message = encode_record(record)
        record_bytes = _bytes_within(message.ByteSize())
        if max_bytes is not None and part.records and size_bytes + record_bytes > max_bytes:
            yield part.SerializeToString()
            part = pb.MetadataSnapshot(sequence=image.sequence, part=part.part + 1)
            size_bytes = _FRAME_BYTES
        part.records.append(message)
        size_bytes += record_bytes
    part.is_last = True
    yield part.SerializeToString()


def _bytes_within(size_bytes: int) -> int:
    """Return the size of a message of that size as an item of another: with its tag and length (seven bits a byte)."""
    return 1 + max(1, (size_bytes.bit_length() + 6) // 7) + size_bytes


class SnapshotBuilder:
    """Takes the parts of one snapshot, in order. There is no image before the last part."""

    def __init__(self) -> None:
        self._image = ClusterImage()
        self._sequence: int | None = None
        self._next_part = 0
        self._is_complete = False

    def take(self, data: bytes) -> ClusterImage | None:
        """Take the next part. Return the image with the last part, None before. Raise `CodecError` for any other part;
        then the builder cannot be used further."""
        part = parse(pb.MetadataSnapshot, data)
        if self._is_complete:
            raise CodecError(f"part {part.part} of a snapshot that is complete")
        if part.part != self._next_part:
            raise CodecError(f"part {part.part} of a snapshot, where part {self._next_part} is due")
        if self._sequence is not None and part.sequence != self._sequence:
            raise CodecError(f"a part of the snapshot at {part.sequence} among those of the one at {self._sequence}")
        for record in decode_records(part.records):
            self._image.apply(record)
        self._sequence = part.sequence
        self._next_part += 1
        self._is_complete = part.is_last
        if not self._is_complete:
            return None
        self._image.sequence = part.sequence
        return self._image
