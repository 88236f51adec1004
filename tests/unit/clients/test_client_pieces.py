"""Small parts of the clients: errors, addresses, credit, buffers."""

from uuid import UUID

import pytest

from lograft.clients import errors
from lograft.clients.admin.model import codec as admin_codec
from lograft.clients.admin.model.types import NewTopic
from lograft.clients.cluster.bootstrap import parse_bootstrap
from lograft.clients.consumer.reading.fetch_credit import FetchCredit
from lograft.clients.consumer.reading.fetched_partition import Anchor, FetchedPartition
from lograft.clients.producer.pipeline.accumulator import Accumulator, AccumulatorLimits
from lograft.clients.producer.pipeline.partition_queue import ProducerIdentity, QueueLimits
from lograft.clients.producer.pipeline.pending_batch import PartitionKey, PendingBatch, Stored
from lograft.clients.types import TopicPartition
from lograft.proto import errors_pb2
from lograft.proto.errors import ERRORS, error_detail
from lograft.proto.errors_pb2 import ErrorDetail
from lograft.runtime.network import Status, StreamError
from lograft.storage.batch.codec import Record, encode_batch

# -- errors


@pytest.mark.parametrize("code", [code for code in ERRORS if code != errors_pb2.NONE])
def test_every_code_has_a_class_that_means_what_the_table_says(code: int) -> None:
    meaning = ERRORS[code]
    error = errors.error_of(error_detail(code, "so it is", leader_id=3, leader_epoch=7, leader_address="b:1"))
    assert type(error).__name__.lower() == meaning.name.replace("_", "").lower()
    assert (error.code, error.retriable, error.outcome_unknown) == (
        meaning.name,
        meaning.retriable,
        meaning.outcome_unknown,
    )
    assert (error.leader_id, error.leader_epoch, error.leader_address) == (3, 7, "b:1")
    assert str(error) == f"{meaning.name}: so it is"
    assert isinstance(error, errors.LograftError)


def test_a_code_of_a_later_version_is_not_retried_and_may_have_been_done() -> None:
    detail = ErrorDetail(message="new")
    detail.ParseFromString(b"\x08\xcf\x0f\x12\x03new")
    error = errors.error_of(detail)
    assert (type(error), error.retriable, error.outcome_unknown) == (errors.ServerError, False, True)
    assert "1999" in str(error)


@pytest.mark.parametrize(
    ("status", "was_sent", "expected"),
    [
        (Status.UNAVAILABLE, True, errors.ConnectionLost),
        (Status.UNAVAILABLE, False, errors.Unavailable),
        (Status.CANCELLED, True, errors.ConnectionLost),
        (Status.UNIMPLEMENTED, True, errors.InvalidRequest),
        (Status.DEADLINE_EXCEEDED, True, errors.TimedOut),
        (Status.INTERNAL, True, errors.Internal),
    ],
)
def test_a_status_without_a_detail_says_what_it_can(status: Status, was_sent: bool, expected: type[Exception]) -> None:
    error = errors.error_of_stream(StreamError(status, "lost"), was_sent=was_sent)
    assert type(error) is expected


def test_a_detail_says_more_than_its_status() -> None:
    detail = error_detail(errors_pb2.UNKNOWN_TOPIC, "no such topic").SerializeToString()
    error = errors.error_of_stream(StreamError(Status.NOT_FOUND, "x", detail))
    assert isinstance(error, errors.UnknownTopic)
    assert isinstance(errors.error_of_stream(StreamError(Status.UNAVAILABLE, "x", b"\xff")), errors.ConnectionLost)


# -- addresses


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("localhost:1", ("localhost:1",)),
        ("localhost", ("localhost:9092",)),
        ("a:1, b:2,", ("a:1", "b:2")),
        (["a:1", "b", "a:1"], ("a:1", "b:9092")),
        ("[::1]:5", ("[::1]:5",)),
        ("[::1]", ("[::1]:9092",)),
    ],
)
def test_addresses_may_be_written_in_many_ways(given: str | list[str], expected: tuple[str, ...]) -> None:
    assert parse_bootstrap(given) == expected


@pytest.mark.parametrize("given", ["", " , ", [], ":1", "a:b", "a:0", "a:70000", "::1", "a:²"])
def test_what_is_no_address_is_refused(given: str | list[str]) -> None:
    with pytest.raises(errors.InvalidArgument, match="localhost:9092"):
        parse_bootstrap(given)


# -- credit


def test_credit_is_the_window_less_what_is_held_and_granted_in_good_portions() -> None:
    credit = FetchCredit(1000)
    assert credit.grant() == 1000
    assert credit.grant() == 0
    credit.received(900)
    assert credit.grant() == 0, "it is all held here"
    credit.freed(200)
    assert credit.grant() == 0, "not worth a message"
    credit.freed(100)
    assert credit.grant() == 300
    credit.freed(600)
    assert credit.grant() == 600


def test_a_batch_over_the_credit_is_made_up_for() -> None:
    credit = FetchCredit(1000)
    credit.grant()
    credit.received(5000)
    assert credit.grant() == 0
    credit.freed(5000)
    assert credit.grant() == 5000, "what was taken too much, and the window"


def test_a_new_stream_is_granted_what_is_not_held_of_the_last() -> None:
    credit = FetchCredit(1000)
    credit.grant()
    credit.received(400)
    credit.stream_started()
    assert credit.grant() == 600


# -- the accumulator

KEY, OTHER = PartitionKey(b"t" * 16, 0), PartitionKey(b"t" * 16, 1)


# -- what an administrator asks for


@pytest.mark.parametrize(
    ("topic", "complaint"),
    [
        (NewTopic("orders", 2**40), "partitions is"),
        (NewTopic("orders", 0), "partitions is 0"),
        (NewTopic("orders", replicas=2**31), "replicas is"),
        (NewTopic("orders", assignments=[[1, -1]]), "broker's id is -1"),
        (NewTopic("orders", config={"retention.ms": 5}), "5 of 'retention.ms'"),  # type: ignore[dict-item]
        (NewTopic("orders", config={"\udcff": "5"}), "not a text"),
        (NewTopic("\udcff"), "topic is"),
        (NewTopic(5), "topic is 5"),  # type: ignore[arg-type]
    ],
)
def test_a_topic_that_no_request_can_hold_is_refused_by_name(topic: NewTopic, complaint: str) -> None:
    with pytest.raises(errors.InvalidArgument, match=complaint):
        admin_codec.write_new_topic(topic, UUID(int=1))


def test_partitions_and_brokers_that_cannot_be_are_refused() -> None:
    for partition in (("orders", 2**31), ("orders", -1), ("orders", "0"), "orders"):
        with pytest.raises(errors.InvalidArgument, match="partition"):
            admin_codec.write_partition(partition)  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidArgument, match="broker"):
        admin_codec.write_brokers([1, 2**31])


# -- what a consumer has of a partition


def fetched(position: int = 0) -> FetchedPartition:
    partition = FetchedPartition(TopicPartition("orders", 0), b"t" * 16, Anchor.EARLIEST)
    partition.found(position)
    return partition


def arrive(partition: FetchedPartition, credit: FetchCredit, offsets: list[int], next_offset: int) -> None:
    base = offsets[0]
    batch = encode_batch(
        [b"%d" % offset for offset in offsets],
        timestamps=0,
        offset_deltas=[offset - base for offset in offsets],
        last_offset_delta=next_offset - base - 1,
        base_offset=base,
    )
    credit.received(len(batch))
    partition.arrived(batch, next_offset, None, credit, leader_epoch=1, source=1)


def offsets_of(records: list[Record]) -> list[int]:
    return [record.offset for record in records]


def take(partition: FetchedPartition, count: int) -> list[int]:
    """As a consumer does."""
    run = partition.open_run(count)
    return offsets_of(run.take(count)) if run is not None else []


def test_records_given_back_come_again_and_holes_stay_passed_over() -> None:
    partition, credit = fetched(), FetchCredit(1000)
    arrive(partition, credit, [0, 3, 4], 10)
    run = partition.open_run(100)
    assert run is not None
    assert (offsets_of(run.take(100)), partition.position) == ([0, 3, 4], 10)
    partition.give_back(run, 1)
    assert partition.position == 1
    assert (take(partition, 1), partition.position) == ([3], 4)
    partition.give_back(run, 2)
    assert partition.position == 4, "that was not taken"
    partition.give_back(run, 1)
    assert (take(partition, 2), partition.position) == ([3, 4], 10)
    arrive(partition, credit, [10], 11)
    partition.give_back(run, 2)
    assert (take(partition, 1), partition.position) == ([4], 10)
    assert (take(partition, 1), partition.position) == ([10], 11)
    partition.give_back(run, 1)
    assert partition.position == 11, "that run is over"
    assert take(partition, 1) == []
    assert credit.held_bytes == 0


def accumulator(**limits: int) -> Accumulator:
    made = Accumulator(AccumulatorLimits(queue=QueueLimits(linger_ms=5), **limits), is_idempotent=True)
    made.identify(ProducerIdentity(7, 0))
    return made


def append(it: Accumulator, size: int = 10, key: PartitionKey = KEY, now_ms: int = 0) -> PendingBatch:
    return it.append(key, "orders", None, bytes(size), 0, (), now_ms)[0]


def take_batch(it: Accumulator, now_ms: int = 100) -> PendingBatch:
    batch = it.take(KEY, now_ms)
    assert batch is not None
    return batch


def test_records_fill_a_batch_up_to_its_size() -> None:
    it = accumulator(batch_bytes=1000)
    batches = [append(it, 300) for _ in range(5)]
    assert batches[0] is batches[1]
    assert batches[2] is not batches[1]
    assert batches[2] is batches[3]
    assert it.sendable_at_ms(KEY) == 0, "a full one does not linger"
    large = append(it, 5000)
    assert large.record_count == 1


def test_the_buffer_counts_what_is_not_settled() -> None:
    it = accumulator(buffer_bytes=1000)
    assert it.has_room(5000), "alone, whatever its size"
    append(it, 500)
    assert it.has_room(100)
    assert not it.has_room(5000)
    append(it, 200, OTHER)
    assert not it.has_room(200)
    it.stored(take_batch(it), Stored(0))
    assert it.has_room(200)
    it.abandon(OTHER, errors.ClientClosed("x"))
    assert it.buffered_bytes == 0
    assert it.partitions == []


def test_halves_of_a_batch_count_and_leave_nothing_behind() -> None:
    it = accumulator()
    for _ in range(4):
        append(it)
    it.refused(take_batch(it), errors.BatchTooLarge("x"), 100)
    while it.partitions:
        it.stored(take_batch(it), Stored(0))
    assert it.buffered_bytes == 0


def test_answers_for_what_was_given_up_are_passed_over() -> None:
    it = accumulator()
    append(it)
    batch = take_batch(it)
    it.abandon(KEY, errors.ClientClosed("x"))
    it.stored(batch, Stored(0))
    it.refused(batch, errors.NotLeader("x"), 0)
    it.lost(batch)
    it.not_sent(batch)
    assert isinstance(batch.outcome, errors.ClientClosed)


def test_nothing_is_sent_without_an_identity() -> None:
    it = Accumulator(AccumulatorLimits(), is_idempotent=True)
    append(it)
    assert it.wants_identity
    assert it.sendable_at_ms(KEY) is None
    assert it.take(KEY, 100) is None
    it.identify(ProducerIdentity(7, 0))
    assert not it.wants_identity
    assert it.take(KEY, 100) is not None
    plain = Accumulator(AccumulatorLimits(), is_idempotent=False)
    append(plain)
    assert not plain.wants_identity
    batch = plain.take(KEY, 100)
    assert batch is not None
    assert batch.sequence is None


def test_no_sequence_is_used_again_after_all_was_given_up() -> None:
    """A broker would take the record for the one that it has under that sequence, and acknowledge what it never got."""
    it = accumulator()
    append(it)
    first = take_batch(it)
    it.stored(first, Stored(0))
    it.abandon(KEY, errors.UnknownTopicId("deleted, or so it seemed"))
    append(it)
    second = take_batch(it)
    it.abandon(KEY, errors.UnknownTopicId("deleted, or so it seemed"))
    append(it)
    third = take_batch(it)
    assert len({first.sequence, second.sequence, third.sequence}) == 3
    assert third.sequence is not None
    assert third.sequence.epoch == 1, "nobody knows whether the second was stored"
