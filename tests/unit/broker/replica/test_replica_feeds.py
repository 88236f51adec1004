"""What a leader's replica is to one follower, whose subscription is made by hand."""

import asyncio
from dataclasses import replace
from itertools import count

import pytest
from support.metadata_images import ids
from support.replica_brokers import Metadata, TestBroker, append, place, start_brokers, until
from support.virtual_log import virtual

from lograft.broker.replica.partition_feed import PartitionFeed
from lograft.broker.replica.replica import Replica
from lograft.broker.replication.follower_core import Acknowledge, Subscribe
from lograft.broker.replication.interfaces import ResetTo
from lograft.broker.replication.leader_core import Subscriber
from lograft.broker.replication.log_matching import TruncateTo
from lograft.metadata.image.partition import BrokerId, PartitionEpoch, TopicId
from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ReplicaError

ONE, TWO, THREE = ids(1, 2, 3)
NUMBERS = count(1000)


class Listener:
    """Remembers why its feed has ended."""

    def __init__(self) -> None:
        self.news = 0
        self.error: ReplicaError | None = None

    def has_news(self) -> None:
        self.news += 1

    def ended(self, error: ReplicaError) -> None:
        assert self.error is None, "told twice"
        self.error = error


async def led(metadata: Metadata) -> tuple[dict[BrokerId, TestBroker], TopicId, Replica]:
    """Two replicas in sync, with three records; the second follows nobody, but for what a test says in its name."""
    brokers = await start_brokers(metadata, 2)
    topic = metadata.create("orders", place(metadata, 1, 2))
    leader = await brokers[ONE].leads(topic)
    await append(leader, 3).outcome()
    await until(lambda: brokers[TWO].replica(topic).high_watermark == 3)
    brokers[TWO].sink.end()
    return brokers, topic, leader


async def subscribe(
    brokers: dict[BrokerId, TestBroker], leader: Replica, end_offset: int = 3, last_epoch: int | None = 0
) -> tuple[PartitionFeed | TruncateTo | ResetTo, Listener]:
    partition, number, listener = leader.partition, next(NUMBERS), Listener()
    assert partition is not None
    directory = partition.directory_of(TWO)
    assert directory is not None
    subscriber = Subscriber(TWO, brokers[TWO].view.broker_epoch, directory, number)
    request = Subscribe(number, partition.leader_epoch, partition.partition_epoch, end_offset, last_epoch)
    return await leader.subscribe(subscriber, request, listener), listener


async def fed(brokers: dict[BrokerId, TestBroker], leader: Replica) -> tuple[PartitionFeed, Listener]:
    feed, listener = await subscribe(brokers, leader)
    assert isinstance(feed, PartitionFeed)
    return feed, listener


def acknowledgement(leader: Replica, feed: PartitionFeed, end_offset: int) -> Acknowledge:
    partition = leader.partition
    assert partition is not None
    number = feed.subscription.subscriber.number
    return Acknowledge(number, partition.leader_epoch, partition.partition_epoch, end_offset)


@virtual
async def test_what_is_acknowledged_counts() -> None:
    brokers, _, leader = await led(Metadata())
    feed, listener = await fed(brokers, leader)
    pending = append(leader, 2)
    assert listener.news == 1
    frame = await feed.read(3, 1000)
    assert frame is not None
    assert (frame.start, frame.end) == (3, 5)
    await leader.log.wait_stable(5)
    assert not pending.done()
    feed.acknowledged(acknowledgement(leader, feed, 5))
    assert pending.done()
    assert leader.high_watermark == 5


@virtual
async def test_who_loses_the_lead_tells_its_followers_and_sends_nothing_more() -> None:
    metadata = Metadata()
    brokers, _, leader = await led(metadata)
    feed, listener = await fed(brokers, leader)
    append(leader)
    metadata.fence(1)
    assert listener.error is not None
    assert (listener.error.code, listener.error.leader_id) == (errors_pb2.NOT_LEADER, TWO)
    with pytest.raises(ReplicaError):
        await feed.read(3, 1000)


@virtual
async def test_a_read_that_the_loss_of_the_lead_overtakes_yields_nothing() -> None:
    metadata = Metadata()
    brokers, _, leader = await led(metadata)
    feed, _ = await fed(brokers, leader)
    append(leader)
    await leader.log.wait_stable(4)
    leader.log.tail.clear()
    brokers[ONE].machine.files.cold_read_probability = 1.0
    reading = asyncio.ensure_future(feed.read(3, 1000))
    await asyncio.sleep(0)  # it waits for the disk
    metadata.fence(1)
    assert not reading.done()
    with pytest.raises(ReplicaError) as over:
        await reading
    assert over.value.code == errors_pb2.NOT_LEADER


@virtual
async def test_a_later_subscription_ends_the_one_before() -> None:
    brokers, _, leader = await led(Metadata())
    former, told = await fed(brokers, leader)
    pending = append(leader)
    feed, _ = await fed(brokers, leader)
    assert told.error is not None
    with pytest.raises(ReplicaError):
        await former.read(3, 1000)
    await leader.log.wait_stable(4)
    former.acknowledged(acknowledgement(leader, former, 4))
    assert not pending.done()
    former.close()
    feed.acknowledged(acknowledgement(leader, feed, 4))
    assert pending.done(), "that the former was closed does not touch the latter"


@virtual
async def test_what_was_acknowledged_on_a_stream_that_is_gone_counts_no_more() -> None:
    brokers, _, leader = await led(Metadata())
    feed, listener = await fed(brokers, leader)
    append(leader, 2)
    feed.acknowledged(acknowledgement(leader, feed, 5))
    feed.close()
    feed.close()
    await leader.log.wait_stable(5)
    assert leader.high_watermark == 3
    assert listener.error is None, "who closes need not be told"
    news = listener.news
    append(leader)
    assert listener.news == news


@virtual
async def test_who_was_told_to_cut_or_start_over_counts_for_nothing() -> None:
    brokers, _, leader = await led(Metadata())
    append(leader)
    await leader.log.wait_stable(4)
    parted, listener = await subscribe(brokers, leader, end_offset=9)
    assert parted == TruncateTo(0, 4)
    leader.log.delete_prefix(3)
    reset, _ = await subscribe(brokers, leader, end_offset=2)
    assert isinstance(reset, ResetTo)
    assert leader.high_watermark == 3
    append(leader)
    assert listener.news == 0


@virtual
async def test_a_replica_that_is_added_is_throttled_until_it_counts_and_its_feed_is_told() -> None:
    """It counts from the moment at which its leader asks to have it in the ISR."""
    metadata = Metadata()
    brokers, topic, leader = await led(metadata)
    metadata.configure(topic, "min.insync.replicas", "1")
    before = metadata.partition(topic)
    alone = replace(before, isr=(ONE,), adding=(TWO,), partition_epoch=PartitionEpoch(before.partition_epoch + 1))
    metadata.put(topic, alone)
    await append(leader, 2).outcome()
    feed, listener = await fed(brokers, leader)
    assert feed.is_throttled
    brokers[ONE].view.hold()
    append(leader)
    told = listener.news
    feed.acknowledged(acknowledgement(leader, feed, 5))
    assert (leader.high_watermark, leader.log_end) == (5, 6)
    assert not feed.is_throttled
    assert listener.news > told
    assert leader.partition is not None
    assert TWO not in leader.partition.isr, "what the controller says is not known yet"
