"""What compaction has taken out of a replica because of a later record, which an unclean election then gave up, is not
missing there and found elsewhere: all have what the elected has."""

from dataclasses import replace

from support.compacted_topics import ONE, THREE, TWO, led, table, write
from support.metadata_images import ids
from support.replica_brokers import Metadata, TestBroker, until
from support.virtual_log import virtual

from lograft.broker.replica.replica import Replica
from lograft.metadata.decisions.brokers.fencing import unfence
from lograft.metadata.image.broker import BrokerState
from lograft.metadata.image.partition import BrokerId, LeaderEpoch, PartitionEpoch, TopicId
from lograft.storage.cleaning.compaction import compact

KEPT = {b"kept-%02d" % number: b"1" for number in range(15)}


async def fill(leader: Replica) -> None:
    """What was written before is in sealed segments now."""
    for number in range(20):
        await write(leader, b"filler", b"%d" % number)


async def clean(replica: Replica) -> None:
    await compact(replica.log, replica.high_watermark, replica.log.disk.clock.wall_ms())
    assert replica.log.checkpointed.cleaned_below > 0
    replica.log.tail.clear()


async def elect_uncleanly(metadata: Metadata, broker: TestBroker, topic: TopicId) -> Replica:
    before = metadata.partition(topic)
    epoch = LeaderEpoch(before.leader_epoch + 1)
    metadata.put(
        topic,
        replace(
            before,
            leader=broker.broker_id,
            isr=(broker.broker_id,),
            elr=(),
            leader_epoch=epoch,
            partition_epoch=PartitionEpoch(before.partition_epoch + 1),
            unclean_epoch=epoch,
        ),
    )
    if metadata.image.brokers[broker.broker_id].state is BrokerState.FENCED:  # cut off before: it is back
        metadata.carry_out(unfence(metadata.image, broker.broker_id, metadata.image.brokers[broker.broker_id].epoch))
    return await broker.leads(topic)


def cut_off(metadata: Metadata, broker: TestBroker) -> None:
    broker.sink.stop()
    metadata.fence(broker.broker_id)


def let_back(metadata: Metadata, broker: TestBroker) -> None:
    metadata.carry_out(unfence(metadata.image, broker.broker_id, broker.view.broker_epoch))
    broker.sink.start()


async def until_equal(one: Replica, other: Replica) -> None:
    await until(lambda: one.log_end == other.log_end and one.log.stable_end == one.log_end)


@virtual
async def test_who_has_cleaned_beyond_what_the_elected_has_starts_over() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led(metadata)
    third = await brokers[THREE].follows(topic)
    await write(leader, b"key", b"old")
    await fill(leader)
    await until(lambda: metadata.partition(topic).isr == ids(1, 2, 3))
    await until(lambda: third.log_end == leader.log_end)
    cut_off(metadata, brokers[THREE])
    await write(leader, b"key", b"new")
    await fill(leader)
    second = await brokers[TWO].follows(topic)
    await until(lambda: second.high_watermark == leader.log_end)
    await clean(second)
    brokers[ONE].kill()
    metadata.fence(1)
    elected = await elect_uncleanly(metadata, brokers[THREE], topic)
    await until_equal(second, elected)
    assert await table(second) == await table(elected) == {b"key": b"old"}


async def half_copied(
    metadata: Metadata, copier: BrokerId, other: BrokerId
) -> tuple[dict[BrokerId, TestBroker], TopicId, Replica]:
    """The leader has a key's new value only. `copier` has copied from it as far as the old one was, and not to the new
    one; `other` has the old one."""
    brokers, topic, leader = await led(metadata, copier)
    uncleaned = await brokers[other].follows(topic)
    await write(leader, b"key", b"old")
    for key in KEPT:
        await write(leader, key, b"1")
    await fill(leader)
    await until(lambda: uncleaned.log.stable_end == leader.log_end)
    cut_off(metadata, brokers[other])
    await write(leader, b"key", b"new")
    await fill(leader)
    await clean(leader)
    broker = brokers[copier]
    broker.fed_bytes = 1
    broker.sink.start()
    copy = await broker.follows(topic)
    await until(lambda: copy.log.stable_end > 1)
    cut_off(metadata, broker)
    assert 1 < copy.log_end < copy.log.checkpointed.cleaned_below
    broker.fed_bytes = 100_000
    brokers[ONE].kill()
    metadata.fence(1)
    return brokers, topic, copy


@virtual
async def test_who_is_elected_with_half_a_copy_of_a_cleaned_log_has_the_others_start_over() -> None:
    metadata = Metadata()
    brokers, topic, _ = await half_copied(metadata, TWO, THREE)
    let_back(metadata, brokers[TWO])
    elected = await elect_uncleanly(metadata, brokers[TWO], topic)
    await fill(elected)
    let_back(metadata, brokers[THREE])
    third = await brokers[THREE].follows(topic)
    await until_equal(third, elected)
    found = await table(elected)
    assert await table(third) == found
    assert 0 < len(found) < len(KEPT)
    assert b"key" not in found
    await until(lambda: metadata.partition(topic).isr == ids(2, 3))
    # What was given up does not count against the copy that all go on with.
    brokers[TWO].kill()
    metadata.fence(2)
    successor = await brokers[THREE].leads(topic)
    await brokers[TWO].start()
    again = await brokers[TWO].follows(topic)
    await write(successor, b"more", b"1")
    await until_equal(again, successor)
    assert "ResetTo" not in brokers[TWO].sink.log
    assert await table(again) == await table(successor) == {**found, b"more": b"1"}


@virtual
async def test_who_has_half_a_copy_of_a_cleaned_log_starts_over_when_another_is_elected() -> None:
    metadata = Metadata()
    brokers, topic, copy = await half_copied(metadata, TWO, THREE)
    elected = await elect_uncleanly(metadata, brokers[THREE], topic)
    brokers[TWO].sink.start()
    await until_equal(copy, elected)
    assert await table(copy) == await table(elected) == {**KEPT, b"key": b"old"}


@virtual
async def test_what_is_being_copied_after_the_election_goes_on_where_it_was() -> None:
    """Else a copy that takes longer than its streams last would begin over and over again."""
    metadata = Metadata()
    brokers, topic, _ = await half_copied(metadata, TWO, THREE)
    elected = await elect_uncleanly(metadata, brokers[THREE], topic)
    await clean(elected)
    broker = brokers[TWO]
    broker.fed_bytes = 1
    broker.sink.start()
    copy = await broker.follows(topic)
    await until(lambda: copy.log_end == 0)
    ends: list[int] = []
    while copy.log_end < elected.log.checkpointed.cleaned_below - 1:
        end = copy.log_end
        await until(lambda: copy.log_end > end)  # noqa: B023
        ends.append(copy.log_end)
        broker.sink.stop()
        await copy.log.wait_stable(copy.log_end)
        broker.kill()
        metadata.fence(2)
        await broker.start()
        copy = await broker.follows(topic)
    assert len(ends) > 1
    assert ends == sorted(set(ends))
    await until_equal(copy, elected)
    assert await table(copy) == await table(elected)
