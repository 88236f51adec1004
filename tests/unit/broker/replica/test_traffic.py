"""What goes in and out of partitions is counted, and no count ever goes back."""

import pytest
from support.metadata_images import ids, topic_id
from support.raft_nodes import virtual as on_virtual_network
from support.replica_brokers import Metadata, append, place, start_brokers, until
from support.replicating_brokers import replicating
from support.virtual_log import virtual

from lograft.broker.replica.interfaces import Acks
from lograft.broker.replica.traffic import PartitionTraffic, Traffic
from lograft.metadata.image.records import TopicDeleted
from lograft.storage.batch.codec import encode_batch
from lograft.storage.log.admission import admit

ONE, TWO, THREE = topic_id(1), topic_id(2), topic_id(3)
FIRST_BROKER = ids(1)[0]
NOW_MS = 1_767_225_600_000  # when the virtual calendar starts


def counts(traffic: PartitionTraffic) -> dict[str, int]:
    return {name: value for name in PartitionTraffic.__slots__ if (value := getattr(traffic, name))}


def test_a_partition_without_traffic_is_not_told_of() -> None:
    traffic = Traffic()
    traffic.of((ONE, 0))
    traffic.of((ONE, 1)).took_in(100, 3)
    assert [key for key, _ in traffic.partitions()] == [(ONE, 1)]


@pytest.mark.parametrize("name", PartitionTraffic.__slots__)
def test_every_count_is_added(name: str) -> None:
    one, other = PartitionTraffic(), PartitionTraffic()
    setattr(one, name, 1)
    setattr(other, name, 2)
    one.add(other)
    assert counts(one) == {name: 3}


def test_topics_and_the_total_are_sums() -> None:
    traffic = Traffic()
    traffic.of((ONE, 0)).took_in(100, 3)
    traffic.of((ONE, 1)).took_in(10, 1)
    traffic.of((TWO, 0)).gave_out(7, 2)
    assert {topic: counts(each) for topic, each in traffic.topics()} == {
        ONE: {"bytes_in": 110, "records_in": 4},
        TWO: {"bytes_out": 7, "records_out": 2},
    }
    assert counts(traffic.total()) == {"bytes_in": 110, "records_in": 4, "bytes_out": 7, "records_out": 2}


def test_the_total_keeps_what_topics_had_that_are_gone() -> None:
    traffic = Traffic()
    traffic.of((ONE, 0)).took_in(100, 3)
    traffic.of((TWO, 0)).took_in(10, 1)
    traffic.forget_all_but({TWO: None})
    assert [key for key, _ in traffic.partitions()] == [(TWO, 0)]
    assert counts(traffic.total()) == {"bytes_in": 110, "records_in": 4}


@on_virtual_network
async def test_leaders_and_followers_count_what_passes_between_them() -> None:
    async with replicating() as one:
        leader = await one.until_led()
        batch = encode_batch([b"a", b"b", b"c"], timestamps=NOW_MS)
        admitted = admit(batch, leader.log_config, NOW_MS)
        await leader.append(admitted, acks=Acks.ALL, leader_epoch=None, timeout_ms=5000)
        size = len(batch)
        assert counts(leader.traffic) == {"bytes_in": size, "records_in": 3, "replicated_bytes_out": 2 * size}
        for broker in one.brokers.values():
            if broker.replica() is not leader:
                assert counts(broker.replica().traffic) == {"replicated_bytes_in": size}


@virtual
async def test_a_batch_that_was_sent_twice_counts_once() -> None:
    metadata = Metadata()
    brokers = await start_brokers(metadata, 1)
    leader = await brokers[FIRST_BROKER].leads(metadata.create("orders", place(metadata, 1)))
    for _ in range(2):
        await append(leader, 2, producer_id=7, producer_epoch=0, base_sequence=0).outcome()
    assert leader.traffic.records_in == 2


@virtual
async def test_traffic_of_a_deleted_topic_is_forgotten_but_stays_in_the_total() -> None:
    metadata = Metadata()
    broker = (await start_brokers(metadata, 1))[FIRST_BROKER]
    topic = metadata.create("orders", place(metadata, 1))
    leader = await broker.leads(topic)
    await append(leader, 2).outcome()
    before = counts(broker.manager.traffic.total())
    metadata.commit(TopicDeleted(topic))
    await until(lambda: not broker.has(topic))
    assert not list(broker.manager.traffic.topics())
    assert counts(broker.manager.traffic.total()) == before


def test_only_so_many_topics_are_told_apart_and_no_sum_goes_back() -> None:
    traffic = Traffic(told_apart=1)
    traffic.of((ONE, 0)).took_in(100, 1)
    traffic.of((TWO, 0)).took_in(10, 1)
    traffic.of((TWO, 1)).took_in(5, 1)
    assert [(topic, counts(each)) for topic, each in traffic.topics()] == [(ONE, {"bytes_in": 100, "records_in": 1})]
    assert counts(traffic.others()) == {"bytes_in": 15, "records_in": 2}
    traffic.forget_all_but({TWO: None})
    assert counts(traffic.others()) == {"bytes_in": 15, "records_in": 2}, "it does not gain what was told apart"
    traffic.of((THREE, 0)).took_in(1, 1)
    assert traffic.is_told_apart(THREE), "there is room again"
    assert not traffic.is_told_apart(TWO), "it stays where it was"
    traffic.forget_all_but({})
    assert counts(traffic.others()) == {"bytes_in": 15, "records_in": 2}
    assert counts(traffic.total()) == {"bytes_in": 116, "records_in": 4}


@virtual
async def test_elections_and_changes_of_the_isr_are_counted_by_who_leads() -> None:
    metadata = Metadata()
    brokers = await start_brokers(metadata, 2)
    first, second = brokers.values()
    topic = metadata.create("orders", place(metadata, 1, 2))
    await first.leads(topic)
    await second.follows(topic)
    assert (first.manager.counts.elections, second.manager.counts.elections) == (1, 0)
    first.kill()
    metadata.fence(1)
    await second.leads(topic)
    counted = second.manager.counts
    assert (counted.elections, counted.unclean_elections, counted.isr_shrinks, counted.isr_expands) == (1, 0, 1, 0)
