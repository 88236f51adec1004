"""The consumer against brokers that die, move, refuse and fall silent: it gives each record once, in order."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pyarrow
import pytest
from support.fake_log_service import FakeCluster
from support.raft_nodes import virtual

import lograft
from lograft.clients import errors, fetch_line
from lograft.clients.aio_consumer import Consumer
from lograft.clients.consumer_options import ConsumerKeywords
from lograft.clients.topic_partition import TopicPartition
from lograft.proto.log_pb2 import FetchResponse
from lograft.proto.methods import FETCH
from lograft.storage.batch import Compression, Record, encode_batch, parse_header, stamp

ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


@asynccontextmanager
async def consuming(
    leaders: tuple[int, ...] = (1, 2), *, seed: int = 1, **options: object
) -> AsyncIterator[tuple[FakeCluster, Consumer]]:
    cluster = FakeCluster(seed=seed)
    await cluster.start()
    cluster.create_topic("orders", leaders)
    keywords: ConsumerKeywords = {"auto_offset_reset": "earliest", **options}  # type: ignore[typeddict-item]
    async with Consumer(cluster.bootstrap, runtime=cluster.client, **keywords) as consumer:
        yield cluster, consumer


def store(cluster: FakeCluster, partition: int, first: int, last: int, *, batch: int = 10) -> None:
    """Records whose values are their numbers, in batches."""
    for start in range(first, last, batch):
        values = [b"%d" % number for number in range(start, min(start + batch, last))]
        cluster.log("orders", partition).append(encode_batch(values, timestamps=start))
    cluster.tell()


async def poll_values(consumer: Consumer, count: int) -> list[bytes | None]:
    values: list[bytes | None] = []
    async with asyncio.timeout(60):
        while len(values) < count:
            values += [record.value for record in await consumer.poll(1.0)]
    return values


def numbers(first: int, last: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, last)]


# -- records


@virtual
async def test_records_come_in_order_with_all_that_belongs_to_them() -> None:
    async with consuming() as (cluster, consumer):
        batch = encode_batch([b"v", None], keys=[b"k", None], timestamps=[5, 6], headers=[[("h", b"1")], []])
        cluster.log("orders").append(batch)
        await consumer.assign([ORDERS_0])
        assert await consumer.poll(5.0) == [
            ("orders", 0, 0, 5, b"k", b"v", (("h", b"1"),)),
            ("orders", 0, 1, 6, None, None, ()),
        ]


@virtual
async def test_poll_waits_for_what_is_not_there_yet_and_gives_nothing_after_its_time() -> None:
    async with consuming() as (cluster, consumer):
        await consumer.assign([ORDERS_0])
        clock = cluster.client.clock
        started_ms = clock.monotonic_ms()
        assert await consumer.poll(2.0) == []
        assert clock.monotonic_ms() - started_ms == 2000
        polling = asyncio.ensure_future(consumer.poll())
        await asyncio.sleep(1)
        started_ms = clock.monotonic_ms()
        store(cluster, 0, 0, 1)
        assert [record.value for record in await polling] == [b"0"]
        assert clock.monotonic_ms() - started_ms < 50, "pushed, not asked for"
        assert await consumer.poll(0) == []


@virtual
async def test_a_poll_gives_no_more_than_it_is_asked_for_and_goes_on_where_it_was() -> None:
    async with consuming(max_poll_records=7) as (cluster, consumer):
        store(cluster, 0, 0, 40)
        await consumer.assign([ORDERS_0])
        assert [len(await consumer.poll(1.0)) for _ in range(2)] == [7, 7]
        assert await consumer.position(ORDERS_0) == 14
        assert [record.offset for record in await consumer.poll(1.0, max_records=3)] == [14, 15, 16]
        assert await poll_values(consumer, 23) == numbers(17, 40)


@virtual
async def test_partitions_that_are_added_show_and_can_be_assigned() -> None:
    async with consuming((1,)) as (cluster, consumer):
        assert await consumer.partitions_for("orders") == [ORDERS_0]
        cluster.add_partition("orders", 2)
        store(cluster, 1, 0, 3)
        await consumer.assign([ORDERS_1])
        assert await poll_values(consumer, 3) == numbers(0, 3)
        assert await consumer.partitions_for("orders") == [ORDERS_0, ORDERS_1]
        cluster.add_partition("orders", 3)
        async with asyncio.timeout(1):
            while len(await consumer.partitions_for("orders")) < 3:
                await consumer.poll(0.1)


@virtual
async def test_partitions_take_turns() -> None:
    async with consuming(max_poll_records=10) as (cluster, consumer):
        store(cluster, 0, 0, 100)
        store(cluster, 1, 0, 100)
        await consumer.assign([ORDERS_0, ORDERS_1])
        await asyncio.sleep(1)
        polls = [await consumer.poll(1.0) for _ in range(20)]
        served = [{record.partition for record in records} for records in polls]
        assert [len(records) for records in polls] == [10] * 20
        assert served == [{0}, {1}] * 10


@virtual
async def test_iteration_goes_on_for_ever() -> None:
    async with consuming() as (cluster, consumer):
        await consumer.assign([ORDERS_0])
        store(cluster, 0, 0, 3)
        values = []
        async for record in consumer:
            values.append(record.value)
            if len(values) == 3:
                store(cluster, 0, 3, 6)
            if len(values) == 6:
                break
        assert values == numbers(0, 6)


@virtual
async def test_whoever_stops_iterating_goes_on_behind_the_last_record_that_was_given() -> None:
    async with consuming() as (cluster, consumer):
        store(cluster, 0, 0, 30)
        store(cluster, 1, 0, 5)
        await consumer.assign([ORDERS_0])
        given: list[bytes | None] = []
        for stop in (3, 4, 12):
            async for record in consumer:
                given.append(record.value)
                if len(given) == stop:
                    break
            assert given == numbers(0, stop)
        assert [record.value for record in await consumer.poll(1.0, max_records=3)] == numbers(12, 15)
        assert (await anext(consumer)).value == b"15"
        assert await consumer.position(ORDERS_0) == 16
        await consumer.assign([ORDERS_0, ORDERS_1])
        assert (await anext(consumer)).value == b"16"
        await consumer.pause(ORDERS_0)
        assert await poll_values(consumer, 5) == numbers(0, 5)
        await consumer.resume()
        assert (await anext(consumer)).value == b"17"
        await consumer.seek(ORDERS_0, 2)
        assert (await anext(consumer)).value == b"2"
        await consumer.seek(ORDERS_0, 29)
        assert await poll_values(consumer, 1) == [b"29"]
        assert await consumer.position(ORDERS_0) == 30
        await consumer.seek_to_beginning()
        first = await anext(consumer)
        await consumer.seek_to_beginning()
        assert (first.value, (await anext(consumer)).value) == (b"0", b"0")
        await consumer.seek_to_beginning()
        assert (await anext(consumer)).partition in (0, 1)
        await consumer.assign([ORDERS_1])
        await consumer.seek_to_beginning()
        assert (await anext(consumer)).partition == 1
        await consumer.assign([ORDERS_0])
        assert (await anext(consumer)).partition == 0


@virtual
async def test_offsets_need_not_be_dense_and_control_batches_are_passed_over() -> None:
    async with consuming() as (cluster, consumer):
        log = cluster.log("orders")
        parts = [
            encode_batch([b"a", b"b"], timestamps=0, offset_deltas=[0, 3], last_offset_delta=5, base_offset=0),
            encode_batch([], timestamps=0, last_offset_delta=3, base_offset=6),
            encode_batch([b"control"], timestamps=0, control=True, base_offset=10),
            encode_batch([b"c"], timestamps=0, base_offset=20),
            encode_batch([], timestamps=0, last_offset_delta=9, base_offset=21),
        ]
        log.batches = [(parse_header(part), part) for part in parts]
        await consumer.assign([ORDERS_0])
        records = [*await consumer.poll(1.0), *await consumer.poll(1.0)]
        assert [(record.offset, record.value) for record in records] == [(0, b"a"), (3, b"b"), (20, b"c")]
        assert await consumer.position(ORDERS_0) == 31


# -- where to begin


@pytest.mark.parametrize(("reset", "expected"), [("earliest", numbers(5, 12)), ("latest", numbers(10, 12))])
@virtual
async def test_it_begins_where_it_is_told(reset: str, expected: list[bytes]) -> None:
    async with consuming(auto_offset_reset=reset) as (cluster, consumer):
        store(cluster, 0, 0, 10, batch=1)
        log = cluster.log("orders")
        log.start, log.batches = 5, log.batches[5:]
        await consumer.assign([ORDERS_0])
        await consumer.position(ORDERS_0)
        store(cluster, 0, 10, 12)
        assert await poll_values(consumer, len(expected)) == expected


@virtual
async def test_without_a_reset_one_has_to_say_where_to_begin() -> None:
    async with consuming(auto_offset_reset="none") as (cluster, consumer):
        store(cluster, 0, 0, 10)
        await consumer.assign([ORDERS_0])
        with pytest.raises(errors.OffsetOutOfRange, match="seek"):
            await consumer.poll(1.0)
        await consumer.pause()
        assert await consumer.poll(0.1) == []
        await consumer.resume()
        with pytest.raises(errors.OffsetOutOfRange, match="seek"):
            await consumer.poll(1.0)
        await consumer.seek(ORDERS_0, 8)
        assert await poll_values(consumer, 2) == numbers(8, 10)


@virtual
async def test_an_offset_that_is_not_there_any_more_is_reset_or_told_with_the_range_that_is() -> None:
    for reset, expected in (("earliest", b"5"), ("none", None)):
        async with consuming(auto_offset_reset=reset) as (cluster, consumer):
            store(cluster, 0, 0, 10, batch=1)
            log = cluster.log("orders")
            log.start, log.batches = 5, log.batches[5:]
            await consumer.assign([ORDERS_0])
            await consumer.seek(ORDERS_0, 2)
            if expected is not None:
                assert (await poll_values(consumer, 1))[0] == expected
                continue
            with pytest.raises(errors.OffsetOutOfRange) as caught:
                await consumer.poll(5.0)
            assert (caught.value.valid_start, caught.value.valid_end) == (5, 10)


@pytest.mark.parametrize("reset", ["earliest", "latest"])
@virtual
async def test_what_came_is_given_before_an_offset_that_is_not_there_any_more_is_reset(reset: str) -> None:
    options = {"fetch_buffer_bytes": 2000, "fetch_partition_bytes": 400}
    async with consuming((1,), auto_offset_reset=reset, **options) as (cluster, consumer):
        store(cluster, 0, 0, 100)
        await consumer.assign([ORDERS_0])
        await consumer.seek(ORDERS_0, 0)
        assert [record.value for record in await consumer.poll(1.0, max_records=1)] == [b"0"]
        await asyncio.sleep(1)
        log = cluster.log("orders")
        log.start, log.batches = 80, log.batches[8:]
        cluster.network.break_connections("client", "broker-1")
        await asyncio.sleep(1.3)
        assert sum(len(request.add) for request in cluster.brokers[1].fetches) == 2, "once more, and it was told"
        started_ms = cluster.client.clock.monotonic_ms()
        values: list[bytes | None] = []
        while records := await consumer.poll(1.0, max_records=7):
            values += [record.value for record in records]
            assert await consumer.position(ORDERS_0) >= len(values)
            assert cluster.client.clock.monotonic_ms() - started_ms < 500, "it goes on at once"
        came = values.index(b"80") if b"80" in values else len(values)
        assert 1 < came < 80, "some was fetched ahead, and not all"
        assert values == [*numbers(1, 1 + came), *(numbers(80, 100) if reset == "earliest" else [])]
        assert await consumer.position(ORDERS_0) == 100


@virtual
async def test_an_offset_that_is_gone_is_reset_once_the_last_record_that_came_is_given() -> None:
    async with consuming((1,)) as (cluster, consumer):
        store(cluster, 0, 0, 10)
        await consumer.assign([ORDERS_0])
        assert [(await anext(consumer)).value for _ in range(9)] == numbers(0, 9)
        cluster.cut_off(1)
        store(cluster, 0, 10, 100)
        log = cluster.log("orders")
        log.start, log.batches = 80, log.batches[8:]
        cluster.move_leader("orders", 0, 2)
        await asyncio.sleep(5)
        assert (await anext(consumer)).value == b"9"
        assert await poll_values(consumer, 20) == numbers(80, 100)


# -- moving about


@virtual
async def test_seeking_drops_what_was_fetched_ahead() -> None:
    async with consuming() as (cluster, consumer):
        store(cluster, 0, 0, 100)
        await consumer.assign([ORDERS_0])
        await consumer.poll(1.0, max_records=5)
        await asyncio.sleep(1)
        await consumer.seek(ORDERS_0, 50)
        assert await consumer.position(ORDERS_0) == 50
        assert (await poll_values(consumer, 50)) == numbers(50, 100)
        await consumer.seek_to_beginning(ORDERS_0)
        assert (await poll_values(consumer, 100)) == numbers(0, 100)
        await consumer.seek(ORDERS_0, 0)
        await consumer.seek_to_end()
        assert await consumer.position(ORDERS_0) == 100
        store(cluster, 0, 100, 101)
        assert await poll_values(consumer, 1) == [b"100"]


@virtual
async def test_a_paused_partition_gives_nothing_and_goes_on_where_it_was() -> None:
    async with consuming() as (cluster, consumer):
        store(cluster, 0, 0, 20)
        store(cluster, 1, 100, 110)
        await consumer.assign([ORDERS_0, ORDERS_1])
        await asyncio.sleep(0.5)
        assert {record.partition for record in await consumer.poll(1.0, max_records=5)} == {0}
        await consumer.pause(ORDERS_0)
        assert await poll_values(consumer, 10) == numbers(100, 110)
        assert await consumer.poll(1.0) == []
        await consumer.resume(ORDERS_0)
        assert await poll_values(consumer, 15) == numbers(5, 20)


@virtual
async def test_what_stays_assigned_goes_on_and_what_is_new_begins() -> None:
    async with consuming() as (cluster, consumer):
        store(cluster, 0, 0, 20)
        store(cluster, 1, 100, 110)
        await consumer.assign([ORDERS_0])
        await consumer.poll(1.0, max_records=5)
        await consumer.assign([ORDERS_0, ORDERS_1])
        assert sorted(await poll_values(consumer, 25)) == sorted([*numbers(5, 20), *numbers(100, 110)])
        await consumer.assign([ORDERS_1])
        assert consumer.assignment() == [ORDERS_1]
        store(cluster, 0, 20, 30)
        store(cluster, 1, 110, 111)
        assert await poll_values(consumer, 1) == [b"110"]
        assert await consumer.poll(1.0) == []


@virtual
async def test_what_is_not_there_or_not_assigned_is_named() -> None:
    async with consuming() as (_, consumer):
        with pytest.raises(errors.UnknownTopic, match="nonsense"):
            await consumer.assign([TopicPartition("nonsense", 0)])
        with pytest.raises(errors.UnknownPartition, match="partition 9"):
            await consumer.assign([TopicPartition("orders", 9)])
        with pytest.raises(errors.NotAssigned):
            await consumer.seek(ORDERS_0, 0)
        await consumer.assign([ORDERS_0])
        for offset in (-1, 2**63, "5", 1.5):
            with pytest.raises(errors.InvalidArgument, match=str(offset)):
                await consumer.seek(ORDERS_0, offset)  # type: ignore[arg-type]
        for count in (0, -1, "5"):
            with pytest.raises(errors.InvalidArgument, match=f"max_records is {count!r}"):
                await consumer.poll(1.0, max_records=count)  # type: ignore[arg-type]
        for partition in ("orders", ("orders",), ("orders", "0"), (5, 0), ("\udcff", 0), None):
            with pytest.raises(errors.InvalidArgument, match="is not a partition"):
                await consumer.assign([partition])  # type: ignore[list-item]
            with pytest.raises(errors.InvalidArgument, match="is not a partition"):
                await consumer.end_offsets([partition])  # type: ignore[list-item]
            with pytest.raises(errors.InvalidArgument, match="is not a partition"):
                await consumer.seek(partition, 5)  # type: ignore[arg-type]
        for moment in (2**63, -(2**63) - 1, "now"):
            with pytest.raises(errors.InvalidArgument, match=str(moment)):
                await consumer.offsets_for_times({ORDERS_0: moment})  # type: ignore[dict-item]
        assert consumer.assignment() == [ORDERS_0]
        assert await consumer.offsets_for_times({ORDERS_0: -5}) == {ORDERS_0: None}
        with pytest.raises(errors.InvalidArgument, match="topic"):
            await consumer.partitions_for(5)  # type: ignore[arg-type]
    with pytest.raises(errors.ClientClosed):
        await consumer.poll(0)
    with pytest.raises(errors.ClientClosed):
        Consumer("localhost").assignment()
    with pytest.raises(errors.InvalidArgument, match="auto_offset_reset"):
        Consumer("localhost", auto_offset_reset="never")


@virtual
async def test_offsets_are_asked_of_whoever_leads() -> None:
    async with consuming() as (cluster, consumer):
        store(cluster, 0, 0, 20)
        store(cluster, 1, 0, 7)
        both = [ORDERS_0, ORDERS_1]
        assert await consumer.beginning_offsets(both) == {ORDERS_0: 0, ORDERS_1: 0}
        assert await consumer.end_offsets(both) == {ORDERS_0: 20, ORDERS_1: 7}
        assert await consumer.offsets_for_times({ORDERS_0: 10, ORDERS_1: 10}) == {ORDERS_0: 10, ORDERS_1: None}
        cluster.move_leader("orders", 0, None)
        asking = asyncio.ensure_future(consumer.end_offsets(both))
        await asyncio.sleep(2)
        assert not asking.done()
        cluster.move_leader("orders", 0, 3)
        assert await asking == {ORDERS_0: 20, ORDERS_1: 7}
        assert await consumer.partitions_for("orders") == both


# -- credit


@virtual
async def test_no_more_is_fetched_ahead_than_there_is_room_for() -> None:
    async with consuming((1,), fetch_buffer_bytes=2000, fetch_partition_bytes=500) as (cluster, consumer):
        store(cluster, 0, 0, 1000)
        await consumer.assign([ORDERS_0])
        await asyncio.sleep(2)
        granted = sum(request.credit_bytes for request in cluster.brokers[1].fetches)
        assert granted == 2000
        assert await poll_values(consumer, 1000) == numbers(0, 1000)
        assert len(cluster.brokers[1].fetches) < 100, "credit is not granted a few bytes at a time"


@virtual
async def test_a_batch_larger_than_the_room_comes_all_the_same() -> None:
    async with consuming((1,), fetch_buffer_bytes=1000) as (cluster, consumer):
        for _ in range(5):
            cluster.log("orders").append(encode_batch([bytes(5000)], timestamps=0))
        await consumer.assign([ORDERS_0])
        assert len(await poll_values(consumer, 5)) == 5


@virtual
async def test_what_is_dropped_makes_room_again() -> None:
    async with consuming((1,), fetch_buffer_bytes=2000, fetch_partition_bytes=500) as (cluster, consumer):
        store(cluster, 0, 0, 300)
        await consumer.assign([ORDERS_0])
        for _ in range(10):
            await asyncio.sleep(0.5)
            await consumer.seek(ORDERS_0, 0)
            await asyncio.sleep(0.5)
            await consumer.pause()
            await consumer.resume()
        assert await poll_values(consumer, 300) == numbers(0, 300)


@virtual
async def test_a_seek_counts_even_while_the_beginning_is_being_looked_for() -> None:
    async with consuming((1,)) as (cluster, consumer):
        store(cluster, 0, 0, 10)
        for delay_ms in range(8):
            await consumer.assign([])
            await consumer.assign([ORDERS_0])
            await asyncio.sleep(delay_ms / 1000)
            await consumer.seek_to_end()
            assert await consumer.position(ORDERS_0) == 10


@virtual
async def test_many_partitions_are_asked_for_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_line, "_MOST_AT_ONCE", 4)
    async with consuming((1,) * 10) as (cluster, consumer):
        names = [TopicPartition("orders", number) for number in range(10)]
        await consumer.assign(names)
        for name in names:
            await consumer.seek(name, 0)
            store(cluster, name.partition, 0, 1)
        assert len(await poll_values(consumer, 10)) == 10
        await consumer.assign(names[:1])
        store(cluster, 0, 1, 2)
        assert await poll_values(consumer, 1) == [b"1"]
        fetches = cluster.brokers[1].fetches
        assert sum(len(request.remove) for request in fetches) == 9
        assert max(len(request.add) + len(request.remove) for request in fetches) == 4


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
    async with consuming(seed=seed, **options) as (cluster, consumer):

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


@virtual
async def test_what_arrives_between_a_seek_and_the_broker_hearing_of_it_is_passed_over() -> None:
    async with consuming((1,)) as (cluster, consumer):
        store(cluster, 0, 0, 50)
        await consumer.assign([ORDERS_0])
        await consumer.seek(ORDERS_0, 50)
        assert await consumer.poll(1.0) == []
        (line,) = consumer._reader._fetcher._lines.values()
        (handle,) = line._subscriptions
        await consumer.seek(ORDERS_0, 0)
        batch = stamp(encode_batch([b"50"], timestamps=0), 50, 0)
        line._take(FetchResponse.Data(handle=handle, next_offset=51, high_watermark=51), batch)
        assert await poll_values(consumer, 50) == numbers(0, 50)


# -- from followers


@asynccontextmanager
async def consuming_near_2() -> AsyncIterator[tuple[FakeCluster, Consumer]]:
    """Broker 1 leads, in rack a; broker 2 follows, in the consumer's rack."""
    cluster = FakeCluster(racks={1: "a", 2: "b", 3: "a"})
    await cluster.start()
    cluster.create_topic("orders", [1])
    cluster.set_isr("orders", 0, 1, 2)
    store(cluster, 0, 0, 20)
    async with Consumer(cluster.bootstrap, runtime=cluster.client, rack="b", auto_offset_reset="earliest") as consumer:
        await consumer.assign([ORDERS_0])
        yield cluster, consumer


def added(cluster: FakeCluster, number: int) -> int:
    """How often a partition was asked for there."""
    return sum(len(request.add) for request in cluster.brokers[number].fetches)


@virtual
async def test_a_follower_in_the_consumers_rack_is_read_from() -> None:
    async with consuming_near_2() as (cluster, consumer):
        assert await poll_values(consumer, 20) == numbers(0, 20)
        store(cluster, 0, 20, 40)
        assert await poll_values(consumer, 20) == numbers(20, 40)
        assert (added(cluster, 1), added(cluster, 2)) == (0, 1)


@virtual
async def test_a_follower_that_leaves_the_isr_is_left() -> None:
    async with consuming_near_2() as (cluster, consumer):
        assert await poll_values(consumer, 20) == numbers(0, 20)
        cluster.set_isr("orders", 0, 1)
        store(cluster, 0, 20, 40)
        assert await poll_values(consumer, 20) == numbers(20, 40)
        assert added(cluster, 1) == 1
        cluster.set_isr("orders", 0, 1, 2)
        await asyncio.sleep(10)
        store(cluster, 0, 40, 60)
        assert await poll_values(consumer, 20) == numbers(40, 60)
        assert added(cluster, 2) == 2, "it is in sync again"


@virtual
async def test_a_follower_that_dies_is_left_before_the_metadata_say_so() -> None:
    async with consuming_near_2() as (cluster, consumer):
        assert await poll_values(consumer, 20) == numbers(0, 20)
        cluster.kill(2)
        store(cluster, 0, 20, 40)
        async with asyncio.timeout(2):
            assert await poll_values(consumer, 20) == numbers(20, 40)


@virtual
async def test_what_a_follower_does_not_have_is_asked_of_the_leader() -> None:
    """Nothing is skipped or reset by what a follower says."""
    async with consuming_near_2() as (cluster, consumer):
        assert await poll_values(consumer, 20) == numbers(0, 20)
        log = cluster.log("orders")
        log.in_sync = (1,)  # the metadata do not say so yet
        cluster.brokers[2].forget_changes()
        store(cluster, 0, 20, 40)
        assert await poll_values(consumer, 20) == numbers(20, 40)
        assert added(cluster, 1) == 1


@virtual
async def test_a_follower_that_fails_again_and_again_is_tried_less_and_less_often() -> None:
    """Each time costs a reader as long as it takes to notice."""
    async with consuming_near_2() as (cluster, consumer):
        assert await poll_values(consumer, 20) == numbers(0, 20)
        cluster.kill(2)  # and the metadata never say so
        store(cluster, 0, 20, 40)
        assert await poll_values(consumer, 20) == numbers(20, 40)
        await asyncio.sleep(7)
        assert added(cluster, 1) == 2, "it is tried again soon"
        await asyncio.sleep(150)
        assert added(cluster, 1) < 8
        store(cluster, 0, 40, 60)
        assert await poll_values(consumer, 20) == numbers(40, 60)
        await cluster.start(2)
        await asyncio.sleep(170)
        store(cluster, 0, 60, 80)
        assert await poll_values(consumer, 20) == numbers(60, 80)
        assert added(cluster, 2) == 1, "it is read from again"


def test_a_rack_that_is_no_name_is_refused() -> None:
    for rack in ("", "a\n", 7):
        with pytest.raises(errors.InvalidArgument, match="rack is"):
            Consumer("localhost:1", rack=rack)  # type: ignore[arg-type]


# -- waking up


@virtual
async def test_a_poll_that_waits_is_woken_and_else_the_next_one() -> None:
    async with consuming() as (cluster, consumer):
        await consumer.assign([ORDERS_0])
        for waiting in (consumer.poll(), consumer.poll_arrow(), anext(consumer)):
            polling = asyncio.ensure_future(waiting)
            await asyncio.sleep(1)
            assert not polling.done()
            consumer.wakeup()
            with pytest.raises(errors.WakeupError):
                await polling
        store(cluster, 0, 0, 30)
        assert (await anext(consumer)).value == b"0"
        for poll in (consumer.poll, consumer.poll_arrow, consumer.__anext__):
            consumer.wakeup()
            consumer.wakeup()
            with pytest.raises(errors.WakeupError):
                await poll()
        assert await poll_values(consumer, 29) == numbers(1, 30)
        assert await consumer.poll(0) == []


# -- what came, in another form


@virtual
async def test_what_cannot_be_deserialized_is_told_when_it_is_next_and_can_be_passed_over() -> None:
    async with consuming((1,), key_deserializer="string", value_deserializer="json") as (cluster, consumer):
        values = [b'{"a": 1}', b"[2]", b"nonsense", b"4", None]
        keys = [b"k", None, None, b"\xff", "ü".encode()]
        cluster.log("orders").append(encode_batch(values, keys=keys, timestamps=0))
        await consumer.assign([ORDERS_0])
        assert [(record.key, record.value) for record in await consumer.poll(1.0)] == [("k", {"a": 1}), (None, [2])]
        for poll in (consumer.poll, consumer.poll, consumer.__anext__, consumer.__anext__):
            with pytest.raises(errors.DeserializationError, match=r"value of the record at offset 2 of orders-0"):
                await poll()
            assert await consumer.position(ORDERS_0) == 2
        await consumer.seek(ORDERS_0, 3)
        with pytest.raises(errors.DeserializationError, match=r"key of the record at offset 3") as caught:
            await anext(consumer)
        assert (caught.value.topic, caught.value.partition, caught.value.offset) == ("orders", 0, 3)
        await consumer.seek(ORDERS_0, 4)
        assert [(record.key, record.value) for record in await consumer.poll(1.0)] == [("ü", None)]


@virtual
async def test_tables_hold_what_records_do_and_either_goes_on_where_the_other_stopped() -> None:
    async with consuming((1,)) as (cluster, consumer):
        for magic, compression in ((3, Compression.NONE), (2, Compression.NONE), (3, Compression.ZSTD)):
            cluster.log("orders").append(
                encode_batch(
                    [b"a", None, b"", b"d"],
                    keys=[None, b"k", b"", None],
                    headers=[[], [("h", b"1"), ("h", None)], [], []],
                    timestamps=[5, 6, 7, 8],
                    magic=magic,
                    compression=compression,
                )
            )
        cluster.log("orders").append(encode_batch([b"control"], timestamps=0, control=True))
        compacted = encode_batch([b"x", b"y"], timestamps=9, offset_deltas=[1, 3], last_offset_delta=5)
        cluster.log("orders").append(compacted)
        await consumer.assign([ORDERS_0])
        expected = await poll_records(consumer, 14)
        for limits in ((14,), (1, 2, 3, 4, 4), (4, 4, 4, 2), (13, 1)):
            await consumer.seek(ORDERS_0, 0)
            found: list[Record] = []
            for index, limit in enumerate(limits):
                if index % 2:
                    found += await poll_records(consumer, limit)
                    continue
                table = await consumer.poll_arrow(1.0, max_records=limit)
                assert table.schema == lograft.ARROW_SCHEMA
                assert table.num_rows == limit
                found += rows_of(table)
            assert found == expected
            assert await consumer.position(ORDERS_0) == 19
        empty = await consumer.poll_arrow(0)
        assert (empty.num_rows, empty.schema) == (0, lograft.ARROW_SCHEMA)


def rows_of(table: "pyarrow.Table") -> list[Record]:
    return [
        Record(
            row["topic"],
            row["partition"],
            row["offset"],
            round(row["timestamp"].timestamp() * 1000),
            row["key"],
            row["value"],
            tuple((pair["key"], pair["value"]) for pair in row["headers"]),
        )
        for row in table.to_pylist()
    ]


async def poll_records(consumer: Consumer, count: int) -> list[Record]:
    records: list[Record] = []
    async with asyncio.timeout(60):
        while len(records) < count:
            records += await consumer.poll(1.0, max_records=count - len(records))
    return records


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
        await consumer.seek(ORDERS_0, caught.value.valid_end)
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


# -- figures


@virtual
async def test_a_consumer_says_how_much_it_gets_and_how_far_it_is_behind() -> None:
    async with consuming((1,), fetch_buffer_bytes=1_000_000) as (cluster, consumer):
        assert consumer.metrics().assigned_partitions == 0
        await consumer.assign([ORDERS_0])
        assert consumer.lag(ORDERS_0) is None
        assert consumer.metrics().current_lag == {ORDERS_0: None}
        store(cluster, 0, 0, 100)
        await asyncio.sleep(1)
        stored_bytes = sum(len(batch) for _, batch in cluster.log("orders").batches)
        waiting = consumer.metrics()
        assert (waiting.buffered_bytes, waiting.bytes, waiting.records) == (stored_bytes, stored_bytes, 0)
        assert waiting.current_lag == {ORDERS_0: 100}
        await consumer.poll(1.0, max_records=30)
        assert consumer.lag(ORDERS_0) == 70
        await poll_values(consumer, 70)
        done = consumer.metrics()
        assert (done.assigned_partitions, done.buffered_bytes, done.records) == (1, 0, 100)
        assert done.current_lag == {ORDERS_0: 0}
        assert done.records_per_second > 0
        assert done.bytes_per_second > done.records_per_second
        assert done.fetch_latency.count == 1
        await asyncio.sleep(20)
        assert consumer.metrics().records_per_second == 0
        await consumer.pause(ORDERS_0)
        assert consumer.paused() == [ORDERS_0]
        await consumer.resume()
        assert consumer.paused() == []
        with pytest.raises(errors.NotAssigned):
            consumer.lag(ORDERS_1)
