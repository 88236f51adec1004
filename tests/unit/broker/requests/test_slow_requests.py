"""Requests that take too long are told of, but not those that were asked to wait."""

import asyncio

import pytest
from support.log_services import ORDERS, Node, Talk
from support.metadata_images import image_with, with_records
from support.raft_nodes import make_runtime, virtual
from support.served_replicas import batch

from lograft.broker.fetch.fetch_service import FetchService
from lograft.broker.fetch.range_service import RangeService
from lograft.broker.produce.produce_service import ProduceService
from lograft.broker.requests.call_stats import ServerStats, counted
from lograft.broker.requests.slow_requests import SlowRequests, SlowRequestSetting, waiting
from lograft.broker.server.records_service import RecordsService
from lograft.metadata.image.partition import BrokerId
from lograft.metadata.image.records import ConfigChanged, ConfigResource, ResourceKind
from lograft.proto import log_pb2 as pb
from lograft.proto.methods import FETCH, LIST_OFFSETS, PRODUCE, READ, READ_RANGE
from lograft.rpc.unary import exchange
from lograft.runtime.network import Stream


class Noted(SlowRequests):
    """Keeps what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.noted: list[dict[str, object]] = []

    def note(self, method: str, seconds: float, **fields: object) -> None:
        super().note(method, seconds, **fields)
        self.noted.append({"method": method, "seconds": seconds, **fields})


def noting() -> tuple[ServerStats, Noted]:
    stats, slow = ServerStats(), Noted()
    stats.slow = slow
    return stats, slow


class _Peer:
    peer = "somebody"


@virtual
async def test_a_call_is_slow_by_what_it_did_not_wait_for_as_asked() -> None:
    clock = make_runtime(1).clock

    async def handle(stream: Stream) -> None:
        await asyncio.sleep(worked)
        with waiting(clock):
            await asyncio.sleep(waited)

    for worked, waited, is_slow in [(0.9, 0, False), (1.1, 0, True), (0.5, 60, False), (1.5, 60, True)]:
        stats, slow = noting()
        await counted({LIST_OFFSETS: handle}, stats, clock)[LIST_OFFSETS](_Peer())  # type: ignore[arg-type]
        assert round(stats.of(LIST_OFFSETS).seconds.sum, 6) == worked
        assert slow.counts == ({"Log/ListOffsets": 1} if is_slow else {})
        for noted in slow.noted:
            assert (noted["waited_ms"], noted["peer"]) == (waited * 1000, "somebody")


@virtual
async def test_calls_at_the_same_time_do_not_share_what_they_waited() -> None:
    clock, gates = make_runtime(1).clock, [asyncio.Event(), asyncio.Event()]

    async def wait(stream: Stream) -> None:
        with waiting(clock):
            await gates[0].wait()

    async def work(stream: Stream) -> None:
        await gates[1].wait()

    stats, slow = noting()
    handlers = counted({LIST_OFFSETS: wait, READ: work}, stats, clock)
    async with asyncio.TaskGroup() as group:
        for handler in handlers.values():
            group.create_task(handler(_Peer()))  # type: ignore[arg-type]
        await asyncio.sleep(5)
        for gate in gates:
            gate.set()
    assert slow.counts == {"Log/Read": 1}


@virtual
async def test_a_read_that_waits_for_records_is_not_slow() -> None:
    node = Node()
    node.lead()
    stats, slow = noting()
    connection = await node.serve(
        counted(RecordsService(node.runtime, node.logs).handlers(), stats, node.runtime.clock)
    )
    request = pb.ReadRequest(topic="orders", wait_ms=30_000)
    await exchange(connection, READ, request.SerializeToString())
    assert stats.of(READ).seconds.sum < 1
    assert not slow.counts


@virtual
async def test_a_batch_that_waits_long_to_be_acknowledged_is_told_of_with_what_it_waited_for() -> None:
    node = Node()
    orders = node.lead()
    orders.is_held = True
    stats, slow = noting()
    service = ProduceService(node.runtime, node.logs, stats=stats)
    talk = Talk((await node.serve(service.handlers())).open(PRODUCE), pb.ProduceResponse)
    items = [pb.ProduceRequest.Item(number=number, topic_id=ORDERS, batch=batch("a")) for number in range(3)]
    await talk.say(pb.ProduceRequest(items=items, client_id="me"))
    await asyncio.sleep(2)
    orders.commit()
    await talk.hear_until(lambda response: bool(response.results))
    (noted,) = slow.noted
    assert noted.pop("seconds") == pytest.approx(2, abs=0.1)
    noted.pop("peer")
    assert noted == {
        "method": "Log/Produce", "waited_for": "acknowledgement", "batches": 3, "topic": "orders",
        "partition": 0, "client_id": "me",
    }  # fmt: skip
    assert service.seconds.count == 3
    assert service.seconds.sum == pytest.approx(6, abs=0.3)


@virtual
async def test_a_consumer_that_waits_for_records_is_not_slow_but_a_read_that_takes_long_is() -> None:
    node = Node()
    orders = node.lead()
    stats, slow = noting()
    service = FetchService(node.runtime, node.logs, stats=stats)
    talk = Talk((await node.serve(service.handlers())).open(FETCH), pb.FetchResponse)
    await talk.say(pb.FetchRequest(add=[pb.FetchRequest.Add(handle=1, topic_id=ORDERS)], credit_bytes=10_000))
    await asyncio.sleep(60)
    orders.append(batch("a"))
    await talk.hear_until(lambda response: any(each.batches for each in response.data))
    assert not slow.counts
    assert service.seconds.count == 1
    assert service.seconds.sum < 0.1
    orders.may_read.clear()
    orders.append(batch("b"))
    await asyncio.sleep(3)
    orders.may_read.set()
    await talk.hear_until(lambda response: any(each.batches for each in response.data))
    (noted,) = slow.noted
    assert noted.pop("seconds") == pytest.approx(3, abs=0.1)
    noted.pop("peer")
    assert noted == {
        "method": "Log/Fetch", "waited_for": "reading", "topic": "orders", "partition": 0, "offset": 1, "client_id": "",
    }  # fmt: skip
    assert service.seconds.sum == pytest.approx(3, abs=0.1)


@virtual
@pytest.mark.parametrize("named", [{"topic": "orders"}, {"topic_id": ORDERS}])
async def test_a_range_that_takes_long_to_read_is_told_of(named: dict[str, str]) -> None:
    node = Node()
    orders = node.lead()
    orders.append(batch("a"))
    stats, slow = noting()
    service = RangeService(node.runtime.clock, node.logs, stats)
    stream = (await node.serve(service.handlers())).open(READ_RANGE)
    orders.may_read.clear()
    await stream.send(pb.ReadRangeRequest(**named).SerializeToString())  # type: ignore[arg-type]
    await stream.half_close()
    await asyncio.sleep(3)
    orders.may_read.set()
    assert await stream.receive()
    (noted,) = slow.noted
    assert noted.pop("seconds") == pytest.approx(3, abs=0.1)
    noted.pop("peer")
    assert noted == {
        "method": "Log/ReadRange", "waited_for": "reading", "topic": "orders", "partition": 0, "offset": 0,
    }  # fmt: skip


@virtual
async def test_only_records_that_somebody_waited_for_count_as_waited_for() -> None:
    node = Node()
    orders = node.lead()
    orders.append(batch("before"))
    service = FetchService(node.runtime, node.logs)
    talk = Talk((await node.serve(service.handlers())).open(FETCH), pb.FetchResponse)
    one_at_a_time = pb.FetchRequest.Add(handle=1, topic_id=ORDERS, max_bytes=1)
    await talk.say(pb.FetchRequest(add=[one_at_a_time], credit_bytes=10_000))
    await talk.hear_until(lambda response: any(each.next_offset == 1 for each in response.data))
    assert service.seconds.count == 0
    for value in ("a", "b", "c"):
        orders.append(batch(value))
    await talk.hear_until(lambda response: any(each.next_offset == 4 for each in response.data))
    assert service.seconds.count == 1, "the others were there when their turn came"


@virtual
async def test_what_a_reader_goes_back_for_was_not_waited_for() -> None:
    node = Node()
    orders = node.lead()
    service = FetchService(node.runtime, node.logs)
    talk = Talk((await node.serve(service.handlers())).open(FETCH), pb.FetchResponse)
    await talk.say(pb.FetchRequest(add=[pb.FetchRequest.Add(handle=1, topic_id=ORDERS)], credit_bytes=1))
    await asyncio.sleep(1)
    orders.append(batch("a"))
    await talk.hear_until(lambda response: any(each.next_offset == 1 for each in response.data))
    orders.append(batch("b"))  # no credit is left for it
    await asyncio.sleep(60)
    await talk.say(pb.FetchRequest(seek=[pb.FetchRequest.Seek(handle=1, offset=0, number=1)], credit_bytes=10_000))
    await talk.hear_until(lambda response: any(each.next_offset == 2 for each in response.data))
    assert service.seconds.count == 1
    assert service.seconds.sum < 1


def test_what_is_set_for_the_broker_is_in_force_at_once() -> None:
    images, slow = [image_with()], SlowRequests()
    setting = SlowRequestSetting(BrokerId(1), lambda: images[-1], slow)
    assert slow.threshold_seconds == 1
    for broker, value, expected in [("1", "250", 0.25), ("2", "7", 0.25), ("1", "0", 0), ("1", None, 1)]:
        resource = ConfigResource(ResourceKind.BROKER, broker)
        images.append(with_records(images[-1], ConfigChanged(resource, "slow.request.ms", value)))
        setting.advanced(1)
        assert slow.threshold_seconds == expected
