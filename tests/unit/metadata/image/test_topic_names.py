"""What a topic may be called, and that names which collide are found without looking at each."""

import pytest
from support.metadata_images import broker, image_with, partition, topic_id, with_records

from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.records import TopicCreated, TopicDeleted
from lograft.metadata.image.topic_names import check_collision, check_topic_name, find_collision
from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ControllerError
from lograft.storage.files.file_names import PartitionName


def refusal(name: str, **options: bool) -> str:
    with pytest.raises(ControllerError) as refused:
        check_topic_name(name, **options)
    assert refused.value.code == errors_pb2.INVALID_TOPIC
    assert not refused.value.retriable
    return refused.value.message


@pytest.mark.parametrize(
    "name", ["a", "Z", "0", "_", "-", "_a", "...", ".a", "orders", "orders.v1", "Orders_2-x", "a__b", "-rf", "a" * 180]
)
def test_a_name_of_letters_digits_dots_underscores_and_hyphens_is_taken(name: str) -> None:
    check_topic_name(name)
    assert PartitionName.parse(str(PartitionName(name, 7, topic_id(1)))) == PartitionName(name, 7, topic_id(1))


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("", "needs a name"),
        ("a" * 181, "181 characters"),
        (".", "'.'"),
        ("..", "'..'"),
        ("a b", "' ' at character 2"),
        ("a/b!", "'/' at character 2"),
        ("orders\n", r"'\n' at character 7"),
        ("a\0", r"'\x00' at character 2"),
        ("übung", r"'\xfc' at character 1"),
        ("a٣", r"'\u0663' at character 2"),
        ("a:b", "':' at character 2"),
        ("__consumer_offsets", "'__'"),
        ("__", "'__'"),
    ],
)
def test_another_name_is_refused_with_what_is_wrong(name: str, named: str) -> None:
    assert named in refusal(name)


def test_a_very_long_name_is_not_repeated_in_full() -> None:
    assert len(refusal("x" * 1_000_000)) < 200


def test_the_clusters_own_topics_may_begin_with_two_underscores() -> None:
    check_topic_name("__consumer_offsets", internal=True)


def test_even_the_clusters_own_topics_are_called_what_a_directory_can_be() -> None:
    assert "'/'" in refusal("__a/b", internal=True)


@pytest.mark.parametrize(
    ("name", "collides"),
    [("a.b", "a_b"), ("a_b", None), ("c_d_e", "c.d_e"), ("c_d.e", "c.d_e"), ("a-b", None), ("ab", None), ("A.b", None)],
)
def test_a_dot_collides_with_an_underscore_and_a_name_not_with_itself(name: str, collides: str | None) -> None:
    image = image_with(broker(1), topics={"a_b": [partition(1)], "c.d_e": [partition(1)]})
    assert find_collision(name, image.colliding_names) == collides
    if collides is None:
        check_collision(name, image.colliding_names)
    else:
        with pytest.raises(ControllerError, match=f"'{collides}'") as refused:
            check_collision(name, image.colliding_names)
        assert refused.value.code == errors_pb2.INVALID_TOPIC


def test_a_deleted_topic_collides_with_nothing() -> None:
    image = image_with(broker(1), topics={"a_b": [partition(1)]})
    after = with_records(image, TopicDeleted(topic_id(1)))
    assert find_collision("a.b", after.colliding_names) is None
    assert find_collision("a.b", image.colliding_names) == "a_b"
    again = with_records(after, TopicCreated(topic_id(2), "a.b"))
    assert find_collision("a_b", again.colliding_names) == "a.b"


def test_a_copy_of_an_image_finds_collisions_of_its_own() -> None:
    image = ClusterImage()
    image.apply(TopicCreated(topic_id(1), "a.b"))
    copy = image.copy()
    copy.apply(TopicCreated(topic_id(2), "c.d"))
    assert find_collision("a_b", copy.colliding_names) == "a.b"
    assert find_collision("c_d", copy.colliding_names) == "c.d"
    assert find_collision("c_d", image.colliding_names) is None


def test_a_colliding_topic_in_the_log_is_a_bug() -> None:
    image = image_with(broker(1), topics={"a_b": [partition(1)]})
    with pytest.raises(AssertionError):
        image.copy().apply(TopicCreated(topic_id(2), "a.b"))
