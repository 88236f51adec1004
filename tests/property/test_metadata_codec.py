"""What the metadata log and its snapshots are given, they give back; whatever else comes is refused."""

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.metadata_images import broker
from support.metadata_operations import BROKER_IDS, EPOCHS, TEXTS, UUIDS, brokers, histories, partitions

from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerEpoch, Replica, TopicId
from lograft.metadata.image.record_codec import (
    CodecError,
    decode_operation,
    decode_records,
    encode_operation,
    encode_records,
)
from lograft.metadata.image.records import (
    BrokerEpochsUsed,
    BrokerRegistered,
    BrokerStateChanged,
    BrokerUnregistered,
    ConfigChanged,
    ConfigResource,
    FeatureLevelChanged,
    Operation,
    PartitionChanged,
    ProducerIdsAllocated,
    Record,
    ResourceKind,
    TopicCreated,
    TopicDeleted,
)
from lograft.metadata.image.snapshot import SnapshotBuilder, decode_snapshot, encode_snapshot, records_of, split
from lograft.proto import metadata_pb2 as pb

WIDE = st.integers(0, 2**63 - 1)
TOPIC_IDS = UUIDS.map(TopicId)
REPLICAS = st.lists(BROKER_IDS, min_size=1, max_size=5, unique=True)
RESOURCES = st.builds(ConfigResource, st.sampled_from(ResourceKind), TEXTS)

RECORDS: st.SearchStrategy[Record] = st.one_of(
    st.builds(BrokerRegistered, brokers(BROKER_IDS, WIDE)),
    st.builds(BrokerStateChanged, BROKER_IDS, WIDE.map(BrokerEpoch)),
    st.builds(BrokerUnregistered, BROKER_IDS),
    st.builds(
        BrokerEpochsUsed,
        WIDE.map(BrokerEpoch),
        st.lists(st.tuples(UUIDS, WIDE.map(BrokerEpoch)), max_size=3).map(tuple),
    ),
    st.builds(TopicCreated, TOPIC_IDS, TEXTS),
    st.builds(TopicDeleted, TOPIC_IDS),
    st.builds(PartitionChanged, TOPIC_IDS, EPOCHS, partitions(REPLICAS)),
    st.builds(ConfigChanged, RESOURCES, TEXTS, st.none() | TEXTS),
    st.builds(ProducerIdsAllocated, WIDE),
    st.builds(FeatureLevelChanged, EPOCHS),
)
OPERATIONS = st.builds(Operation, WIDE, st.lists(RECORDS, max_size=6).map(tuple))

SLOW = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@settings(deadline=None)
@given(OPERATIONS)
def test_an_operation_comes_back_as_it_was(operation: Operation) -> None:
    assert decode_operation(encode_operation(operation)) == operation


def test_a_registration_that_0_1_0_stored_has_no_version() -> None:
    old = encode_operation(Operation(1, (BrokerRegistered(broker(1)),)))
    (record,) = decode_operation(old).records
    assert isinstance(record, BrokerRegistered)
    assert record.broker.version is None
    assert b"1.2.3" not in old
    new = BrokerRegistered(replace(broker(1), version="1.2.3"))
    assert decode_operation(encode_operation(Operation(1, (new,)))).records == (new,)


@settings(deadline=None)
@given(st.lists(RECORDS, max_size=6))
def test_records_travel_within_other_messages(records: list[Record]) -> None:
    snapshot = pb.MetadataSnapshot.FromString(pb.MetadataSnapshot(records=encode_records(records)).SerializeToString())
    assert decode_records(snapshot.records) == tuple(records)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_an_operation_or_refused(data: bytes) -> None:
    try:
        operation = decode_operation(data)
    except CodecError:
        return
    assert decode_operation(encode_operation(operation)) == operation


@settings(max_examples=200, deadline=None)
@given(OPERATIONS, st.data())
def test_a_damaged_operation_is_an_operation_or_refused(operation: Operation, data: st.DataObject) -> None:
    encoded = bytearray(encode_operation(operation))
    for _ in range(data.draw(st.integers(1, 4))):
        if encoded:
            encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.integers(0, 255))
    try:
        damaged = decode_operation(bytes(encoded))
    except CodecError:
        return
    assert decode_operation(encode_operation(damaged)) == damaged


ID = bytes(16)


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        (pb.MetadataRecord(), "does not know"),
        (pb.MetadataRecord(topic_created=pb.TopicCreated(topic_id=b"short", name="a")), "5 bytes"),
        (pb.MetadataRecord(topic_deleted=pb.TopicDeleted()), "0 bytes"),
        (pb.MetadataRecord(broker_registered=pb.BrokerRegistered(incarnation=ID)), "state of a broker"),
        (pb.MetadataRecord(broker_registered=pb.BrokerRegistered(incarnation=ID[1:], state=1)), "15 bytes"),  # type: ignore[arg-type]
        (
            pb.MetadataRecord(broker_registered=pb.BrokerRegistered(incarnation=ID, directories=[b""], state=1)),  # type: ignore[arg-type]
            "0 bytes",
        ),
        (pb.MetadataRecord(broker_state_changed=pb.BrokerStateChanged(state=9)), "9 is no state of a broker"),  # type: ignore[arg-type]
        (pb.MetadataRecord(config_changed=pb.ConfigChanged(key="k", value="v")), "kind of resource"),
        (pb.MetadataRecord(partition_changed=pb.PartitionChanged(topic_id=ID + ID)), "32 bytes"),
        (
            pb.MetadataRecord(partition_changed=pb.PartitionChanged(topic_id=ID, replicas=[1, 2], directories=[ID])),
            "2 replicas in 1 directories",
        ),
        (
            pb.MetadataRecord(partition_changed=pb.PartitionChanged(topic_id=ID, elr=[1], elr_directories=[ID[1:]])),
            "15 bytes",
        ),
        (
            pb.MetadataRecord(partition_changed=pb.PartitionChanged(topic_id=ID, elr_directories=[ID])),
            "0 replicas in 1 directories",
        ),
    ],
)
def test_a_malformed_record_is_refused_with_the_cause(record: pb.MetadataRecord, problem: str) -> None:
    with pytest.raises(CodecError, match=problem):
        decode_operation(pb.MetadataOperation(records=[record]).SerializeToString())


def test_a_kind_of_record_of_a_later_version_is_refused() -> None:
    # Field 20 of MetadataRecord, with an empty message in it.
    later = b"\xa2\x01\x00"
    with pytest.raises(CodecError, match="does not know"):
        decode_operation(b"\x12" + bytes([len(later)]) + later)


def restored(history: Iterable[Operation]) -> ClusterImage:
    image = ClusterImage()
    for operation in history:
        assert image.apply_operation(operation)
    return image


def indexes(image: ClusterImage) -> object:
    """What an image knows of itself besides what it is equal by."""
    everyone = sorted({*image.brokers, *(replica.broker_id for replica in every_replica(image))})
    return (
        image.topic_ids,
        image.colliding_names,
        {replica: image.replicas_in(replica.broker_id, replica.directory_id) for replica in every_replica(image)},
        {broker_id: {(topic, number) for topic, number, _ in image.hosted_by(broker_id)} for broker_id in everyone},
        {broker_id: image.replica_count(broker_id) for broker_id in everyone},
        {broker_id: image.leader_count(broker_id) for broker_id in everyone},
        {(topic_id, number) for topic_id, number, _ in image.leaderless()},
    )


def every_replica(image: ClusterImage) -> Iterable[Replica]:
    for topic in image.topics.values():
        for partition in topic.partitions.values():
            yield from partition.replicas


@settings(SLOW, max_examples=150)
@given(histories(), st.data())
def test_a_snapshot_restores_the_image_and_it_lives_on_alike(history: list[Operation], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(history)))
    original = restored(history[:cut])
    copy = decode_snapshot(encode_snapshot(original))
    assert copy == original
    assert indexes(copy) == indexes(original)
    assert list(copy.deleted_topics) == list(original.deleted_topics)
    assert list(records_of(copy)) == list(records_of(original))
    for operation in history[cut:]:
        assert original.apply_operation(operation)
        assert copy.apply_operation(decode_operation(encode_operation(operation)))
        assert copy == original
    assert indexes(copy) == indexes(original)


@settings(SLOW, max_examples=100)
@given(histories(), st.integers(1, 400))
def test_the_parts_of_a_snapshot_make_the_image(history: list[Operation], max_bytes: int) -> None:
    original = restored(history)
    builder = SnapshotBuilder()
    *parts, last = split(original, max_bytes)
    assert all(len(part) <= max_bytes or len(pb.MetadataSnapshot.FromString(part).records) == 1 for part in parts)
    for part in parts:
        assert builder.take(part) is None
    assert builder.take(last) == original
