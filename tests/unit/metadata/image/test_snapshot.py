"""Snapshots of an image: what is easily left out, and parts that do not make a whole."""

import pytest
from support.metadata_images import broker, directory, epoch_of, image_with, partition, replica, topic_id, with_records

from lograft.metadata.image.broker import BrokerState
from lograft.metadata.image.cluster_image import REMEMBERED_DELETED_TOPICS, ClusterImage
from lograft.metadata.image.partition import BrokerId
from lograft.metadata.image.records import (
    BrokerUnregistered,
    ConfigChanged,
    ConfigResource,
    FeatureLevelChanged,
    Operation,
    ProducerIdsAllocated,
    ResourceKind,
    TopicCreated,
    TopicDeleted,
)
from lograft.metadata.image.snapshot import SnapshotBuilder, decode_snapshot, encode_snapshot, records_of, split
from lograft.proto import metadata_pb2 as pb
from lograft.proto.wire_format import CodecError


def rich_image() -> ClusterImage:
    image = image_with(
        broker(1, rack="a", directories=2),
        broker(2, state=BrokerState.FENCED, directories=0),
        broker(3, state=BrokerState.SHUTTING_DOWN),
        topics={
            "orders": [
                partition(1, 2, 3, isr=[1, 3], leader_epoch=4, partition_epoch=9),
                partition(2, isr=[], elr=[replica(2, 1)], unclean_epoch=0),
                partition(1, 2, 3, isr=[1], target=[3, 1], adding=[3]),
            ],
            "empty": [],
        },
        topic_configs={"orders": {"retention.ms": "-1", "flush.mode": ""}},
        cluster_config={"flush.mode": "os"},
    )
    return with_records(image, ProducerIdsAllocated(3000), FeatureLevelChanged(2))


def parts_of(image: ClusterImage) -> list[bytes]:
    parts = list(split(image, max_bytes=200))
    assert len(parts) > 3
    return parts


def test_a_snapshot_has_all_that_an_image_is() -> None:
    image = rich_image()
    restored = decode_snapshot(encode_snapshot(image))
    assert restored == image
    assert restored.sequence == 2
    assert restored.brokers == image.brokers
    assert restored.topics == image.topics
    assert restored.configs == image.configs
    assert (restored.next_producer_id, restored.feature_level) == (3000, 2)


def test_an_empty_image_has_a_snapshot() -> None:
    assert decode_snapshot(encode_snapshot(ClusterImage())) == ClusterImage()


def test_the_epoch_of_a_broker_that_is_gone_is_not_given_out_again() -> None:
    image = with_records(image_with(broker(1), broker(2)), BrokerUnregistered(BrokerId(2)))
    restored = decode_snapshot(encode_snapshot(image))
    assert restored.last_broker_epoch == epoch_of(2)
    assert list(restored.brokers) == [1]


def test_deleted_topics_are_forgotten_in_the_same_order_after_a_restore() -> None:
    deletions = [TopicDeleted(topic_id(number)) for number in range(REMEMBERED_DELETED_TOPICS, 0, -1)]
    image = with_records(ClusterImage(), *deletions)
    restored = decode_snapshot(encode_snapshot(image))
    one_more = TopicDeleted(topic_id(REMEMBERED_DELETED_TOPICS + 1))
    image, restored = with_records(image, one_more), with_records(restored, one_more)
    assert restored == image
    assert deletions[0].topic_id not in restored.deleted_topics
    assert deletions[1].topic_id in restored.deleted_topics


def test_a_topic_lives_although_its_id_was_deleted_once() -> None:
    image = with_records(ClusterImage(), TopicDeleted(topic_id(1)), TopicCreated(topic_id(1), "orders"))
    assert decode_snapshot(encode_snapshot(image)) == image


def test_an_operation_decided_before_the_snapshot_does_not_take_effect_after_it() -> None:
    image = rich_image()
    late = Operation(image.sequence - 1, (ProducerIdsAllocated(4000),))
    assert not decode_snapshot(encode_snapshot(image)).apply_operation(late)


def test_a_partition_takes_about_a_hundred_bytes() -> None:
    few = image_with(*map(broker, (1, 2, 3)), topics={"t": [partition(1, 2, 3)] * 10})
    many = image_with(*map(broker, (1, 2, 3)), topics={"t": [partition(1, 2, 3)] * 1010})
    assert len(encode_snapshot(many)) - len(encode_snapshot(few)) < 100 * 1000


@pytest.mark.parametrize("value_bytes", [1, 90, 130, 200])
def test_parts_hold_as_much_as_they_may(value_bytes: int) -> None:
    cluster = ConfigResource(ResourceKind.CLUSTER)
    values = [ConfigChanged(cluster, f"key-{number:04}", "x" * value_bytes) for number in range(2000)]
    # Large parts, so that a byte too few for each record would add up to more than a record.
    *parts, last = split(with_records(ClusterImage(), *values), max_bytes=40_000)
    assert all(39_700 < len(part) <= 40_000 for part in parts)
    assert len(last) <= 40_000


def test_a_record_over_the_limit_has_a_part_to_itself() -> None:
    cluster = ConfigResource(ResourceKind.CLUSTER)
    image = with_records(rich_image(), ConfigChanged(cluster, "huge", "x" * 5000), ConfigChanged(cluster, "tiny", "y"))
    builder = SnapshotBuilder()
    *parts, last = split(image, max_bytes=1000)
    assert [len(pb.MetadataSnapshot.FromString(part).records) for part in parts if len(part) > 1000] == [1]
    assert [builder.take(part) for part in parts] == [None] * len(parts)
    assert builder.take(last) == image


@pytest.mark.parametrize(
    "order",
    [
        pytest.param([1], id="the first is missing"),
        pytest.param([0, 2], id="one is missing"),
        pytest.param([0, 0], id="one comes twice"),
        pytest.param([0, 1, 0], id="it begins anew"),
        pytest.param([0, 1, -1], id="the last comes early"),
    ],
)
def test_parts_out_of_turn_are_refused(order: list[int]) -> None:
    parts = parts_of(rich_image())
    builder = SnapshotBuilder()
    for at in order[:-1]:
        assert builder.take(parts[at]) is None
    with pytest.raises(CodecError, match=r"where part \d is due"):
        builder.take(parts[order[-1]])


def test_nothing_comes_after_the_last_part() -> None:
    builder = SnapshotBuilder()
    for part in (parts := parts_of(rich_image())):
        image = builder.take(part)
    assert image == rich_image()
    with pytest.raises(CodecError, match="complete"):
        builder.take(parts[-1])


def test_parts_of_two_snapshots_do_not_mix() -> None:
    older = rich_image()
    newer = with_records(older, ProducerIdsAllocated(5000))
    builder = SnapshotBuilder()
    builder.take(parts_of(older)[0])
    with pytest.raises(CodecError, match="at 3 among those of the one at 2"):
        builder.take(parts_of(newer)[1])


def test_a_part_is_no_whole_snapshot() -> None:
    with pytest.raises(CodecError, match="part"):
        decode_snapshot(parts_of(rich_image())[0])


def test_a_snapshot_cut_short_is_refused_wherever_it_is_cut() -> None:
    data = encode_snapshot(image_with(broker(1), topics={"orders": [partition(1)]}))
    for end in range(len(data)):
        with pytest.raises(CodecError):
            decode_snapshot(data[:end])


def test_bytes_that_are_no_snapshot_are_refused() -> None:
    with pytest.raises(CodecError, match="MetadataSnapshot"):
        decode_snapshot(b"\xff" * 10)


def test_the_records_of_an_image_leave_it_as_it_is() -> None:
    image = rich_image()
    before = image.copy()
    applied = ClusterImage()
    for record in records_of(image):
        applied.apply(record)
    applied.sequence = image.sequence
    assert applied == image == before
    assert applied.partition(topic_id(1), 1).elr[0].directory_id == directory(2, 1)
