"""Ranges are read to their end, each offset once, from brokers that die, move, refuse, fall silent and lie."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager

import pytest
from support.fake_controllers import until
from support.fake_log_service import FakeCluster, FakeLog, refused
from support.fake_ranges import FakeRanges
from support.raft_nodes import virtual

from lograft.clients import errors
from lograft.clients.cluster.cluster_client import ClusterClient, ClusterTimes
from lograft.clients.errors import CorruptBatch
from lograft.proto import errors_pb2
from lograft.proto import log_pb2 as pb
from lograft.runtime.network import Status, StreamError
from lograft.spark.common.range_reader import SILENCE_MS, OffsetRange, RangePart, RangeReader
from lograft.storage.batch.codec import decode_records, encode_batch, iterate_batches, parse_header

PATIENCE_MS = 60_000


@asynccontextmanager
async def reading(
    leaders: tuple[int, ...] = (1,),
    *,
    rack: str | None = None,
    racks: dict[int, str] | None = None,
    spreads: bool = False,
    patience_ms: int = PATIENCE_MS,
) -> AsyncIterator[tuple[FakeCluster, FakeRanges, RangeReader]]:
    cluster = FakeCluster(racks=racks)
    ranges = FakeRanges(cluster)
    await cluster.start()
    cluster.create_topic("orders", leaders)
    client = ClusterClient(cluster.client, cluster.bootstrap, ClusterTimes())
    running = asyncio.ensure_future(client.run())
    try:
        yield cluster, ranges, RangeReader(client, patience_ms=patience_ms, rack=rack, spreads=spreads)
    finally:
        running.cancel()
        await asyncio.wait([running])
        await client.close()


def store(cluster: FakeCluster, count: int, *, batch: int = 10, partition: int = 0) -> None:
    """Records whose values are their offsets, in batches."""
    for start in range(0, count, batch):
        values = [b"%d" % number for number in range(start, min(start + batch, count))]
        cluster.log("orders", partition).append(encode_batch(values, timestamps=start))


def wanted(cluster: FakeCluster, start: int, end: int, partition: int = 0) -> OffsetRange:
    return OffsetRange("orders", cluster.topics["orders"].bytes, partition, start, end)


def offsets_in(part: RangePart) -> list[int]:
    """Of the records that the part is about."""
    view = memoryview(part.batches)
    return [
        record.offset
        for at, header in iterate_batches(view)
        for record in decode_records(view[at : at + header.total_bytes])
        if part.start <= record.offset < part.next_offset
    ]


async def read_all(reader: RangeReader, asked: OffsetRange) -> list[int]:
    """The offsets of all records. The parts lie side by side, and cover the range."""
    parts = [part async for part in reader.read(asked)]
    edges = [asked.start, *(part.next_offset for part in parts)]
    assert [part.start for part in parts] == edges[:-1]
    assert edges[-1] == asked.end
    return [offset for part in parts for offset in offsets_in(part)]


def once(happens: Callable[[], object], *, at: int) -> Callable[[int, int], None]:
    """Before the message that begins with the offset `at`, the first time."""
    left = [happens]

    def before_message(_broker: int, offset: int) -> None:
        if offset == at and left:
            left.pop()()

    return before_message


def cut() -> None:
    raise StreamError(Status.UNAVAILABLE, "the connection broke")


# -- all of it, once


@pytest.mark.parametrize(
    ("start", "end"), [(0, 100), (0, 10), (5, 95), (13, 14), (19, 21), (99, 100), (0, 1), (7, 7), (100, 100)]
)
@virtual
async def test_exactly_the_range_is_read(start: int, end: int) -> None:
    async with reading() as (cluster, _, reader):
        store(cluster, 100)
        assert await read_all(reader, wanted(cluster, start, end)) == list(range(start, end))


@virtual
async def test_of_an_empty_range_nobody_is_asked() -> None:
    async with reading() as (cluster, ranges, reader):
        store(cluster, 10)
        assert await read_all(reader, wanted(cluster, 4, 4)) == []
        assert ranges.requests == []


@pytest.mark.parametrize("tells", [True, False])
@virtual
async def test_when_the_leader_moves_reading_goes_on_there(tells: bool) -> None:
    async with reading() as (cluster, ranges, reader):
        store(cluster, 100)
        ranges.before_message = once(lambda: cluster.move_leader("orders", 0, 2, tells=tells), at=40)
        assert await read_all(reader, wanted(cluster, 5, 95)) == list(range(5, 95))
        assert ranges.asked[0] == (1, 5)
        assert ranges.asked[-1] == (2, 40)


@virtual
async def test_a_stream_that_is_cut_is_opened_again_where_it_was() -> None:
    async with reading() as (cluster, ranges, reader):
        store(cluster, 100)
        ranges.before_message = once(cut, at=40)
        assert await read_all(reader, wanted(cluster, 0, 100)) == list(range(100))
        assert ranges.asked == [(1, 0), (1, 40)]


@virtual
async def test_a_stream_that_ends_too_early_is_opened_again() -> None:
    async with reading() as (cluster, ranges, reader):
        store(cluster, 100)
        honest = ranges.answer

        def ends_early(log: FakeLog, position: int, end: int) -> pb.ReadRangeResponse:
            answer = honest(log, position, end)
            answer.is_last = answer.is_last or position == 40
            return answer

        ranges.answer = ends_early
        assert await read_all(reader, wanted(cluster, 0, 100)) == list(range(100))
        assert ranges.asked == [(1, 0), (1, 50)]


@virtual
async def test_a_broker_that_dies_is_followed_by_the_one_that_leads_next() -> None:
    async with reading() as (cluster, ranges, reader):
        store(cluster, 100)

        def die() -> None:
            cluster.kill(1)
            asyncio.get_running_loop().call_later(3, cluster.move_leader, "orders", 0, 3)

        ranges.before_message = once(die, at=40)
        assert await read_all(reader, wanted(cluster, 0, 100)) == list(range(100))
        assert ranges.asked == [(1, 0), (3, ranges.asked[-1][1])]


@virtual
async def test_a_broker_that_is_stopped_is_left_after_some_silence() -> None:
    async with reading() as (cluster, ranges, reader):
        store(cluster, 100)
        clock = cluster.client.clock

        def stop() -> None:
            cluster.cut_off(1)
            asyncio.get_running_loop().call_later(2, cluster.move_leader, "orders", 0, 2)

        ranges.before_message = once(stop, at=40)
        started_ms = clock.monotonic_ms()
        assert await read_all(reader, wanted(cluster, 0, 100)) == list(range(100))
        assert ranges.asked[-1][0] == 2
        assert SILENCE_MS <= clock.monotonic_ms() - started_ms < SILENCE_MS + 5000


@virtual
async def test_a_reader_that_takes_its_time_is_not_taken_for_silence() -> None:
    async with reading() as (cluster, ranges, reader):
        store(cluster, 50)
        offsets = []
        async for part in reader.read(wanted(cluster, 0, 50)):
            offsets += offsets_in(part)
            await asyncio.sleep(2 * SILENCE_MS / 1000)
        assert offsets == list(range(50))
        assert len(ranges.requests) == 1


@virtual
async def test_who_leads_again_after_a_while_is_waited_for() -> None:
    async with reading() as (cluster, _, reader):
        store(cluster, 20)
        cluster.move_leader("orders", 0, None)
        asyncio.get_running_loop().call_later(PATIENCE_MS / 1000 - 5, cluster.move_leader, "orders", 0, 3)
        assert await read_all(reader, wanted(cluster, 0, 20)) == list(range(20))


# -- replicas


@virtual
async def test_a_follower_in_the_same_rack_is_asked() -> None:
    async with reading(racks={1: "east", 2: "west", 3: "west"}, rack="west") as (cluster, ranges, reader):
        store(cluster, 30)
        cluster.set_isr("orders", 0, 1, 2)
        assert await read_all(reader, wanted(cluster, 0, 30)) == list(range(30))
        assert ranges.asked == [(2, 0)]
        assert ranges.requests[0][1].from_follower


@pytest.mark.parametrize("at", [0, 20])
@virtual
async def test_when_a_follower_refuses_the_leader_is_asked(at: int) -> None:
    async with reading(racks={1: "east", 2: "west"}, rack="west") as (cluster, ranges, reader):
        store(cluster, 40)
        cluster.set_isr("orders", 0, 1, 2)
        log = cluster.log("orders")

        def fall_behind() -> None:
            log.in_sync = (1,)

        ranges.before_message = once(fall_behind, at=at)
        assert await read_all(reader, wanted(cluster, 0, 40)) == list(range(40))
        assert ranges.asked == [(2, 0), (1, at)]
        assert not ranges.requests[-1][1].from_follower


# -- damage


async def read_into(given: list[int], reader: RangeReader, asked: OffsetRange) -> None:
    async for part in reader.read(asked):
        given += offsets_in(part)


def spoilt(batches: bytes) -> bytes:
    """A bit of the last record is not as it was stored."""
    return batches[:-9] + bytes([batches[-9] ^ 1]) + batches[-8:]


@pytest.mark.parametrize("spoil", [spoilt, lambda batches: batches[:-8], lambda batches: b"\0" * len(batches)])
@virtual
async def test_what_one_replica_gives_damaged_is_read_from_another(spoil: Callable[[bytes], bytes]) -> None:
    async with reading() as (cluster, ranges, reader):
        store(cluster, 50)
        cluster.set_isr("orders", 0, 1, 2, 3)
        cluster.spoil = lambda broker, batches: spoil(batches) if broker == 1 and len(ranges.asked) == 1 else batches
        assert await read_all(reader, wanted(cluster, 0, 50)) == list(range(50))
        assert ranges.asked == [(1, 0), (2, 0)]
        assert ranges.requests[1][1].from_follower


@virtual
async def test_what_a_follower_gives_damaged_is_read_from_the_leader() -> None:
    async with reading(racks={1: "east", 2: "west"}, rack="west") as (cluster, ranges, reader):
        store(cluster, 50)
        cluster.set_isr("orders", 0, 1, 2)
        cluster.spoil = lambda broker, batches: spoilt(batches) if broker == 2 else batches
        assert await read_all(reader, wanted(cluster, 0, 50)) == list(range(50))
        assert ranges.asked == [(2, 0), (1, 0)]


@virtual
async def test_what_was_damaged_on_its_way_is_read_again_from_the_only_replica() -> None:
    async with reading() as (cluster, ranges, reader):
        store(cluster, 50)
        cluster.spoil = lambda broker, batches: spoilt(batches) if len(ranges.asked) < 3 else batches
        assert await read_all(reader, wanted(cluster, 0, 50)) == list(range(50))
        assert ranges.asked == [(1, 0)] * 3


@virtual
async def test_what_every_replica_gives_damaged_is_an_error_and_never_left_out() -> None:
    async with reading() as (cluster, ranges, reader):
        store(cluster, 50)
        cluster.set_isr("orders", 0, 1, 2, 3)
        cluster.spoil = lambda broker, batches: spoilt(batches) if parse_header(batches).base_offset == 20 else batches
        given: list[int] = []
        message = r"orders-0 cannot be read from offset 20 on: .*`lograft verify replicas orders`"
        with pytest.raises(CorruptBatch, match=message):
            await read_into(given, reader, wanted(cluster, 0, 50))
        assert given == list(range(20))
        assert ranges.asked == [(1, 0), *[(2, 20), (3, 20), (1, 20)] * 2]


@virtual
async def test_any_replica_in_sync_is_as_good_if_one_says_so() -> None:
    async with reading(spreads=True) as (cluster, ranges, reader):
        store(cluster, 200)
        cluster.set_isr("orders", 0, 1, 2, 3)
        for start in range(0, 200, 10):
            assert await read_all(reader, wanted(cluster, start, start + 10)) == list(range(start, start + 10))
        assert {broker for broker, _ in ranges.asked} == {1, 2, 3}
        assert len(ranges.asked) == 20, "none refused"
        assert {request.from_follower for broker, request in ranges.requests if broker == 1} == {False}


@virtual
async def test_without_that_the_leader_alone_is_asked() -> None:
    async with reading() as (cluster, ranges, reader):
        store(cluster, 50)
        cluster.set_isr("orders", 0, 1, 2, 3)
        for start in range(0, 50, 10):
            await read_all(reader, wanted(cluster, start, start + 10))
        assert {broker for broker, _ in ranges.asked} == {1}


# -- what cannot be read


@pytest.mark.parametrize(("start", "end"), [(5, 40), (30, 101)])
@virtual
async def test_what_is_not_there_is_told_with_what_is(start: int, end: int) -> None:
    async with reading() as (cluster, _, reader):
        store(cluster, 100)
        log = cluster.log("orders")
        log.start, log.batches = 20, log.batches[2:]
        with pytest.raises(errors.OffsetOutOfRange) as caught:
            await read_all(reader, wanted(cluster, start, end))
        assert (caught.value.valid_start, caught.value.valid_end) == (20, 100)


@virtual
async def test_an_end_that_a_leader_does_not_know_of_is_asked_for_again() -> None:
    """It was there when the range was made: a leader that was replaced may not have heard of that yet."""
    async with reading() as (cluster, ranges, reader):
        store(cluster, 80)
        asked = asyncio.ensure_future(read_all(reader, wanted(cluster, 5, 100)))
        await until(lambda: len(ranges.requests) > 3)
        assert not asked.done()
        for start in range(80, 100, 10):
            cluster.log("orders").append(encode_batch([b"later"] * 10, timestamps=start))
        assert await asked == list(range(5, 100))


@virtual
async def test_an_end_that_nobody_knows_of_for_a_while_is_lost() -> None:
    async with reading() as (cluster, _, reader):
        store(cluster, 80)
        began_ms = cluster.client.clock.monotonic_ms()
        with pytest.raises(errors.OffsetOutOfRange) as caught:
            await read_all(reader, wanted(cluster, 5, 100))
        assert (caught.value.valid_start, caught.value.valid_end) == (0, 80)
        assert SILENCE_MS <= cluster.client.clock.monotonic_ms() - began_ms < 2 * SILENCE_MS


@virtual
async def test_what_is_gone_in_the_middle_is_told_after_what_came_before() -> None:
    async with reading() as (cluster, ranges, reader):
        store(cluster, 100)
        log = cluster.log("orders")

        def delete() -> None:
            log.start, log.batches = 70, log.batches[7:]

        ranges.before_message = once(delete, at=40)
        offsets: list[int] = []

        async def read() -> None:
            async for part in reader.read(wanted(cluster, 0, 100)):
                offsets.extend(offsets_in(part))

        with pytest.raises(errors.OffsetOutOfRange) as caught:
            await read()
        assert offsets == list(range(40))
        assert caught.value.valid_start == 70


@virtual
async def test_a_topic_that_is_not_there_is_named() -> None:
    async with reading() as (cluster, _, reader):
        asked = wanted(cluster, 0, 10)
        cluster.delete_topic("orders")
        with pytest.raises(errors.UnknownTopic, match="orders"):
            await read_all(reader, asked)


@virtual
async def test_a_recreated_topic_is_not_taken_for_the_one_that_was_looked_at() -> None:
    async with reading() as (cluster, ranges, reader):
        store(cluster, 10)
        asked = wanted(cluster, 0, 10)
        assert await read_all(reader, asked) == list(range(10))
        cluster.delete_topic("orders")
        cluster.create_topic("orders", [1])
        store(cluster, 10)
        with pytest.raises(errors.UnknownTopicId, match="recreated"):
            await read_all(reader, asked)
        assert len(ranges.requests) <= 2, "one was read; the other is refused, if it is asked for at all"


@virtual
async def test_a_topic_that_is_deleted_in_the_middle_is_an_error_at_once() -> None:
    async with reading() as (cluster, ranges, reader):
        store(cluster, 100)
        asked = wanted(cluster, 0, 100)
        ranges.before_message = once(lambda: cluster.delete_topic("orders"), at=40)
        started_ms = cluster.client.clock.monotonic_ms()
        with pytest.raises(errors.UnknownTopicId, match="deleted"):
            await read_all(reader, asked)
        assert cluster.client.clock.monotonic_ms() - started_ms < 2000


@virtual
async def test_a_reader_that_hears_late_of_a_new_topic_asks_again_before_it_gives_up() -> None:
    """It followed the one of that name before; whoever planned knows the new one already."""
    async with reading((1, 1)) as (cluster, _, reader):
        store(cluster, 10)
        assert await read_all(reader, wanted(cluster, 0, 10)) == list(range(10))
        for broker in cluster.brokers.values():
            broker.is_behind = True
        cluster.delete_topic("orders")
        cluster.create_topic("orders", [2])
        store(cluster, 20)
        assert await read_all(reader, wanted(cluster, 0, 20)) == list(range(20))


@virtual
async def test_a_reader_that_hears_late_of_a_new_partition_asks_again_before_it_gives_up() -> None:
    async with reading((1,)) as (cluster, _, reader):
        store(cluster, 10)
        assert await read_all(reader, wanted(cluster, 0, 10)) == list(range(10))
        for broker in cluster.brokers.values():
            broker.is_behind = True
        cluster.add_partition("orders", 2)
        store(cluster, 20, partition=1)
        assert await read_all(reader, wanted(cluster, 0, 20, partition=1)) == list(range(20))


@virtual
async def test_if_nobody_leads_for_too_long_that_is_the_error() -> None:
    async with reading(patience_ms=20_000) as (cluster, _, reader):
        store(cluster, 10)
        cluster.move_leader("orders", 0, None)
        clock = cluster.client.clock
        started_ms = clock.monotonic_ms()
        with pytest.raises(errors.TimedOut, match=r"orders-0 \[3, 10\).*20000 ms.*nobody leads"):
            await read_all(reader, wanted(cluster, 3, 10))
        assert 20_000 <= clock.monotonic_ms() - started_ms < 21_000


@virtual
async def test_patience_counts_from_the_last_progress() -> None:
    async with reading(patience_ms=20_000) as (cluster, ranges, reader):
        store(cluster, 50)
        clock = cluster.client.clock
        ranges.before_message = once(lambda: cluster.move_leader("orders", 0, None), at=20)
        taken_ms: dict[int, int] = {}

        async def read() -> None:
            async for part in reader.read(wanted(cluster, 0, 50)):
                await asyncio.sleep(15)
                taken_ms[part.next_offset] = clock.monotonic_ms()

        with pytest.raises(errors.TimedOut, match="came to nothing at 20"):
            await read()
        assert list(taken_ms) == [10, 20]
        assert clock.monotonic_ms() - taken_ms[20] >= 20_000


@virtual
async def test_if_no_broker_is_there_the_error_says_whom_it_asked() -> None:
    async with reading(patience_ms=5000) as (cluster, _, reader):
        for number in (1, 2, 3):
            cluster.kill(number)
        with pytest.raises(errors.NoBrokerAvailable, match=r"orders.*5000 ms.*broker-1:9092"):
            await read_all(reader, wanted(cluster, 0, 10))


@virtual
async def test_an_answer_that_does_not_follow_is_refused() -> None:
    async with reading(patience_ms=5000) as (cluster, ranges, reader):
        store(cluster, 30)
        honest = ranges.answer

        def skips(log: FakeLog, position: int, end: int) -> pb.ReadRangeResponse:
            return honest(log, position + 10 if position == 10 else position, end)

        ranges.answer = skips
        with pytest.raises(errors.TimedOut, match="gave 20 of a range, not 10"):
            await read_all(reader, wanted(cluster, 0, 30))


@pytest.mark.parametrize("is_last", [True, False])
@virtual
async def test_a_broker_that_gives_nothing_for_ever_is_no_progress(is_last: bool) -> None:
    async with reading(patience_ms=5000) as (cluster, ranges, reader):
        store(cluster, 30)

        def nothing(_log: FakeLog, position: int, _end: int) -> pb.ReadRangeResponse:
            return pb.ReadRangeResponse(start_offset=position, next_offset=position, is_last=is_last)

        ranges.answer = nothing
        async with asyncio.timeout(60):
            with pytest.raises(errors.TimedOut, match="gave nothing"):
                await read_all(reader, wanted(cluster, 0, 30))


@virtual
async def test_an_error_that_no_waiting_mends_is_raised_at_once() -> None:
    async with reading() as (cluster, ranges, reader):
        store(cluster, 30)

        def corrupt() -> None:
            raise refused(errors_pb2.CORRUPT_BATCH, "a bad CRC at 10")

        ranges.before_message = once(corrupt, at=10)
        with pytest.raises(errors.CorruptBatch, match="a bad CRC at 10"):
            await read_all(reader, wanted(cluster, 0, 30))
        assert len(ranges.requests) == 1


# -- letting go


@virtual
async def test_who_has_enough_leaves_no_stream_behind() -> None:
    async with reading() as (cluster, ranges, reader):
        for _ in range(10):
            cluster.log("orders").append(encode_batch([bytes(200_000)], timestamps=0))  # more than the wire holds
        async with aclosing(reader.read(wanted(cluster, 0, 10))) as parts:
            async for part in parts:
                assert offsets_in(part) == [0]
                break
            assert ranges.open_streams == 1
        await until(lambda: ranges.open_streams == 0, within_s=1)


@virtual
async def test_who_is_cancelled_while_waiting_leaves_no_stream_behind() -> None:
    async with reading() as (cluster, ranges, reader):
        store(cluster, 50)
        ranges.before_message = once(lambda: cluster.cut_off(1), at=20)
        task = asyncio.ensure_future(read_all(reader, wanted(cluster, 0, 50)))
        await asyncio.sleep(3)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        cluster.heal()
        await until(lambda: ranges.open_streams == 0, within_s=5)
