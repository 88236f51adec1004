"""The consumer against brokers that die, move, refuse and fall silent: it gives each record once, in order."""

import asyncio
import struct
from random import Random

import pytest
from support.fake_log_service import FakeCluster
from support.numbered_records import ORDERS_0, ORDERS_1, consuming, numbers, poll_values, store
from support.raft_nodes import virtual

from lograft.clients import errors
from lograft.clients.consumer.reading.options import ConsumerOptions
from lograft.clients.types import TopicPartition
from lograft.proto.methods import FETCH
from lograft.storage.batch.codec import encode_batch, parse_header, stamp
from lograft.storage.batch.header import checksum

# -- when things go wrong


@virtual
async def test_a_stream_that_is_silent_is_given_up_for_another() -> None:
    async with consuming((1,)) as (cluster, consumer):
        store(cluster, 0, 0, 10)
        await consumer.assign([ORDERS_0])
        await poll_values(consumer, 10)
        cluster.cut_off(1)
        await asyncio.sleep(4)
        cluster.heal()
        store(cluster, 0, 10, 20)
        assert await poll_values(consumer, 10) == numbers(10, 20)
        assert cluster.brokers[1].streams.count(FETCH) >= 2


@virtual
async def test_a_leader_that_moved_is_followed() -> None:
    async with consuming() as (cluster, consumer):
        store(cluster, 0, 0, 10)
        await consumer.assign([ORDERS_0])
        assert await poll_values(consumer, 10) == numbers(0, 10)
        for leader, tells in ((2, True), (3, False), (1, True)):
            cluster.move_leader("orders", 0, leader, tells=tells)
            first = cluster.log("orders").end
            started_ms = cluster.client.clock.monotonic_ms()
            store(cluster, 0, first, first + 10)
            assert await poll_values(consumer, 10) == numbers(first, first + 10)
            assert cluster.client.clock.monotonic_ms() - started_ms < 500


@pytest.mark.parametrize("fault", ["kill", "cut_off"])
@virtual
async def test_a_leader_that_dies_or_stands_still_is_replaced_by_the_next(fault: str) -> None:
    async with consuming() as (cluster, consumer):
        store(cluster, 0, 0, 10)
        await consumer.assign([ORDERS_0])
        await poll_values(consumer, 10)
        getattr(cluster, fault)(1)
        cluster.move_leader("orders", 0, 3)
        store(cluster, 0, 10, 20)
        started_ms = cluster.client.clock.monotonic_ms()
        assert await poll_values(consumer, 10) == numbers(10, 20)
        assert cluster.client.clock.monotonic_ms() - started_ms < 4000


@virtual
async def test_a_damaged_batch_is_told_after_what_came_before_it() -> None:
    async with consuming() as (cluster, consumer):
        log = cluster.log("orders")
        store(cluster, 0, 0, 10)
        damaged = bytearray(stamp(encode_batch([b"value"], timestamps=0), 10, 0))
        damaged[damaged.index(b"value")] ^= 1
        log.batches.append((parse_header(damaged), bytes(damaged)))
        await consumer.assign([ORDERS_0])
        assert await poll_values(consumer, 10) == numbers(0, 10)
        with pytest.raises(errors.CorruptBatch, match=r"orders-0 from offset 10 .*seek to 11 to pass over it"):
            await consumer.poll(5.0)
        await consumer.seek(ORDERS_0, 5)
        assert await poll_values(consumer, 5) == numbers(5, 10)


def store_bad(cluster: FakeCluster, start: int) -> None:
    """Two records that nobody can decode, though they are as they were sent."""
    bad = bytearray(stamp(encode_batch([b"value", b"other"], timestamps=0), start, 0))
    bad[bad.index(b"value") - 8] ^= 1  # among the value's offsets
    struct.pack_into(">I", bad, 17, checksum(bad, 21, len(bad)))
    cluster.log("orders").batches.append((parse_header(bad), bytes(bad)))


@virtual
async def test_batches_that_cannot_be_decoded_are_left_out_if_one_says_so() -> None:
    async with consuming(on_bad_batch="skip") as (cluster, consumer):
        store(cluster, 0, 0, 10)
        store_bad(cluster, 10)
        store_bad(cluster, 12)
        store(cluster, 0, 14, 20)
        store_bad(cluster, 20)
        store(cluster, 0, 22, 25)
        await consumer.assign([ORDERS_0])
        assert await poll_values(consumer, 19) == numbers(0, 10) + numbers(14, 20) + numbers(22, 25)
        assert consumer.metrics().bad_batches == 3
        await consumer.seek(ORDERS_0, 8)
        table = await consumer.poll_arrow(1.0)
        assert table.column("offset").to_pylist() == [8, 9, *range(14, 20), 22, 23, 24]
        assert await consumer.position(ORDERS_0) == 25


@virtual
async def test_nothing_but_what_cannot_be_decoded_leads_past_it() -> None:
    async with consuming(on_bad_batch="skip") as (cluster, consumer):
        store_bad(cluster, 0)
        await consumer.assign([ORDERS_0])
        assert await consumer.poll(1.0) == []
        assert await consumer.position(ORDERS_0) == 2
        store(cluster, 0, 2, 5)
        assert await poll_values(consumer, 3) == numbers(2, 5)


def test_what_to_do_about_bad_batches_is_one_of_two() -> None:
    with pytest.raises(errors.InvalidArgument, match="on_bad_batch is 'ignore': give raise or skip"):
        ConsumerOptions(on_bad_batch="ignore")  # type: ignore[arg-type]


@virtual
async def test_a_topic_that_is_deleted_is_told() -> None:
    async with consuming() as (cluster, consumer):
        store(cluster, 0, 0, 10)
        await consumer.assign([ORDERS_0])
        await poll_values(consumer, 10)
        cluster.delete_topic("orders")
        with pytest.raises(errors.UnknownTopicId, match="orders"):
            await consumer.poll(5.0)


@pytest.mark.parametrize("seed", range(10))
@virtual
async def test_under_any_faults_each_record_comes_once_and_in_order(seed: int) -> None:
    dice = Random(seed)
    options = {"fetch_buffer_bytes": dice.choice([1000, 100_000]), "fetch_partition_bytes": 300}
    async with consuming(seed=seed, **options) as (cluster, consumer):  # type: ignore[arg-type]

        async def disturb() -> None:
            while True:
                await asyncio.sleep(dice.uniform(0.01, 0.4))
                match dice.choice(["move", "move", "break", "cut", "heal", "restart"]):
                    case "move":
                        leader = dice.choice([1, 2, 3, None])
                        cluster.move_leader("orders", dice.randrange(2), leader, tells=dice.random() < 0.8)
                    case "break":
                        cluster.network.break_connections("client", f"broker-{dice.randint(1, 3)}")
                    case "cut":
                        cluster.cut_off(dice.randint(1, 3))
                    case "heal":
                        cluster.heal()
                    case "restart":
                        number = dice.randint(1, 3)
                        cluster.kill(number)
                        await cluster.start(number)

        await consumer.assign([ORDERS_0, ORDERS_1])
        await consumer.position(ORDERS_0)
        disturbing = asyncio.ensure_future(disturb())
        expected, stored = {0: 0, 1: 0}, 0

        async def read(timeout: float, max_records: int) -> None:
            for record in await consumer.poll(timeout, max_records):
                assert record.offset == expected[record.partition]
                assert record.value == b"%d" % record.offset
                expected[record.partition] += 1

        for _ in range(100):
            more = dice.randint(0, 20)
            store(cluster, 0, stored, stored + more)
            store(cluster, 1, stored, stored + more)
            stored += more
            await asyncio.sleep(dice.uniform(0, 0.3))
            if dice.random() < 0.3:
                number = dice.randrange(2)
                expected[number] = dice.randint(0, stored)
                await consumer.seek(TopicPartition("orders", number), expected[number])
            await read(dice.uniform(0, 0.3), dice.randint(1, 50))
        disturbing.cancel()
        cluster.heal()
        for number in (0, 1):
            cluster.move_leader("orders", number, 2)
        async with asyncio.timeout(60):
            while expected != {0: stored, 1: stored}:
                await read(1.0, 500)


# -- after an unclean election


def cut(cluster: FakeCluster, end: int) -> None:
    """Another leads who has less, as only an unclean election lets it be; and more is stored."""
    log = cluster.log("orders")
    log.batches = [each for each in log.batches if each[0].next_offset <= end]
    cluster.move_leader("orders", 0, 2)
    for start in range(end, end + 40, 10):
        values = [b"new %d" % number for number in range(start, start + 10)]
        log.append(encode_batch(values, timestamps=start))
    cluster.tell()


@virtual
async def test_records_that_an_unclean_election_lost_are_told_and_nothing_is_skipped() -> None:
    async with consuming((1,), auto_offset_reset="none") as (cluster, consumer):
        store(cluster, 0, 0, 30)
        await consumer.assign([ORDERS_0])
        await consumer.seek(ORDERS_0, 0)
        assert await poll_values(consumer, 30) == numbers(0, 30)
        cut(cluster, 20)
        for _ in range(2):
            with pytest.raises(
                errors.LogTruncated, match=r"orders-0 before offset 30 is gone.* cut it at 20; seek"
            ) as caught:
                await consumer.poll(5.0)
            assert caught.value.valid_end == 20
            assert await consumer.position(ORDERS_0) == 30
        await consumer.seek(ORDERS_0, caught.value.valid_end)  # type: ignore[arg-type]
        assert (await poll_values(consumer, 40))[0] == b"new 20"


@virtual
async def test_with_a_reset_it_goes_on_where_what_was_read_parts_from_the_log_and_counts_that() -> None:
    async with consuming((1,), auto_offset_reset="latest") as (cluster, consumer):
        store(cluster, 0, 0, 30)
        await consumer.assign([ORDERS_0])
        await consumer.seek(ORDERS_0, 0)
        assert await poll_values(consumer, 30) == numbers(0, 30)
        cut(cluster, 20)
        assert (await poll_values(consumer, 40))[0] == b"new 20"
        assert consumer.metrics().truncations == 1
        cluster.move_leader("orders", 0, 3)
        store(cluster, 0, 60, 61)
        assert await poll_values(consumer, 1) == [b"60"]
        assert consumer.metrics().truncations == 1, "an election that lost nothing is none"


@virtual
async def test_what_came_and_was_not_given_is_fetched_anew_when_it_is_not_in_the_log_any_more() -> None:
    async with consuming((1,), auto_offset_reset="none") as (cluster, consumer):
        store(cluster, 0, 0, 30)
        await consumer.assign([ORDERS_0])
        await consumer.seek(ORDERS_0, 0)
        assert [record.value for record in await consumer.poll(1.0, max_records=15)] == numbers(0, 15)
        await asyncio.sleep(1)
        cut(cluster, 20)
        await asyncio.sleep(1)
        values = await poll_values(consumer, 45)
        assert values == [*numbers(15, 20), *(b"new %d" % number for number in range(20, 60))]
        assert consumer.metrics().truncations == 0
