"""The producer against brokers that die, move, refuse and fall silent: what it was given is stored in order, once."""

import asyncio
from random import Random

import pytest
from support.fake_controllers import until
from support.fake_log_service import FakeCluster, refused
from support.numbered_records import numbers, producing, send_all
from support.raft_nodes import virtual

from lograft.clients import errors
from lograft.clients.producer.aio_delivery import Delivery
from lograft.proto import errors_pb2
from lograft.proto import log_pb2 as pb
from lograft.proto.methods import PRODUCE

# -- when things go wrong


@virtual
async def test_a_leader_that_moved_is_followed_by_the_hint_in_its_refusal() -> None:
    async with producing() as (cluster, producer):
        await (await producer.send("orders", b"0"))
        cluster.move_leader("orders", 0, 2, tells=False)
        delivery = await producer.send("orders", b"1")
        assert (await delivery).offset == 1
        assert cluster.brokers[2].requests


@virtual
async def test_batches_in_flight_to_a_dead_leader_go_to_the_next_one() -> None:
    async with producing() as (cluster, producer):
        await (await producer.send("orders", b"0"))
        cluster.brokers[1].answers.clear()
        deliveries = await send_all(producer, 1, 10)
        await until(lambda: len(cluster.log("orders").values) == 10)
        cluster.kill(1)
        await asyncio.sleep(0.3)
        cluster.move_leader("orders", 0, 3)
        assert [(await delivery).offset for delivery in deliveries] == list(range(1, 10))
        assert cluster.log("orders").values == numbers(0, 10)


@virtual
async def test_what_one_leader_does_not_answer_goes_to_the_next_as_soon_as_there_is_one() -> None:
    async with producing() as (cluster, producer):
        await (await producer.send("orders", b"0"))
        cluster.brokers[1].answers.clear()
        deliveries = await send_all(producer, 1, 5)
        await asyncio.sleep(5)
        assert not any(delivery.done() for delivery in deliveries)
        started_ms = cluster.client.clock.monotonic_ms()
        cluster.move_leader("orders", 0, 2)
        await producer.flush()
        assert cluster.client.clock.monotonic_ms() - started_ms < 200
        assert [delivery.result().offset for delivery in deliveries] == [1, 2, 3, 4]
        assert cluster.log("orders").values == numbers(0, 5)


@virtual
async def test_a_new_leader_is_tried_at_once_however_long_the_last_one_refused() -> None:
    async with producing() as (cluster, producer):
        refusals = 0

        def refuse(_: pb.ProduceRequest.Item) -> None:
            nonlocal refusals
            refusals += 1
            raise refused(errors_pb2.NOT_ENOUGH_REPLICAS)

        cluster.brokers[1].before_append = refuse
        delivery = await producer.send("orders", b"0")
        await asyncio.sleep(5)
        before = refusals
        await until(lambda: refusals > before)
        await asyncio.sleep(0.05)
        started_ms = cluster.client.clock.monotonic_ms()
        cluster.move_leader("orders", 0, 2)
        await delivery
        assert cluster.client.clock.monotonic_ms() - started_ms < 200


@virtual
async def test_a_stream_that_is_silent_is_given_up_and_what_was_on_it_sent_again() -> None:
    async with producing() as (cluster, producer):
        await (await producer.send("orders", b"0"))
        cluster.cut_off(1)
        delivery = await producer.send("orders", b"1")
        await asyncio.sleep(4)
        cluster.heal()
        assert (await delivery).offset == 1
        assert cluster.log("orders").values == numbers(0, 2)
        assert cluster.brokers[1].streams.count(PRODUCE) >= 2


@virtual
async def test_a_stream_with_nothing_to_answer_may_be_silent() -> None:
    async with producing() as (cluster, producer):
        for number in range(3):
            assert (await (await producer.send("orders", b"%d" % number))).offset == number
            await asyncio.sleep(10)
        assert cluster.brokers[1].streams == [PRODUCE]


@virtual
async def test_a_partition_without_a_leader_waits_for_one() -> None:
    async with producing() as (cluster, producer):
        await (await producer.send("orders", b"0"))
        cluster.move_leader("orders", 0, None)
        delivery = await producer.send("orders", b"1")
        await asyncio.sleep(5)
        assert not delivery.done()
        cluster.move_leader("orders", 0, 3)
        assert (await delivery).offset == 1


@virtual
async def test_an_answer_that_says_unknown_is_asked_for_again_and_the_batch_is_there_once() -> None:
    async with producing() as (cluster, producer):
        lies = iter([errors_pb2.TIMED_OUT, errors_pb2.NOT_ENOUGH_REPLICAS_AFTER_APPEND])

        def lie(_: pb.ProduceRequest.Item) -> None:
            code = next(lies, None)
            if code is not None:
                raise refused(code)

        cluster.brokers[1].after_append = lie
        assert (await (await producer.send("orders", b"0"))).offset == 0
        assert len(cluster.brokers[1].requests) == 3
        assert cluster.log("orders").values == [b"0"]


@virtual
async def test_a_record_that_is_refused_fails_and_those_behind_it_are_stored() -> None:
    async with producing(batch_bytes=200) as (cluster, producer):

        def refuse(item: pb.ProduceRequest.Item) -> None:
            if b"bad" in item.batch:
                raise refused(errors_pb2.INVALID_RECORD, "no key in a compacted topic")

        cluster.brokers[1].before_append = refuse
        bad = await producer.send("orders", b"bad" + bytes(100))
        good = [await producer.send("orders", b"%d" % number + bytes(100)) for number in range(10)]
        with pytest.raises(errors.InvalidRecord, match="compacted") as caught:
            await bad
        assert not caught.value.outcome_unknown
        assert [(await delivery).offset for delivery in good] == list(range(10))


@virtual
async def test_a_batch_over_the_topics_limit_is_split() -> None:
    async with producing(linger_ms=5) as (cluster, producer):

        def limit(item: pb.ProduceRequest.Item) -> None:
            if len(item.batch) > 500:
                raise refused(errors_pb2.BATCH_TOO_LARGE)

        cluster.brokers[1].before_append = limit
        deliveries = await send_all(producer, 0, 100)
        assert [(await delivery).offset for delivery in deliveries] == list(range(100))
        assert cluster.log("orders").values == numbers(0, 100)
        assert all(header.total_bytes <= 500 for header, _ in cluster.log("orders").batches)
        too_large = await producer.send("orders", bytes(1000))
        with pytest.raises(errors.BatchTooLarge):
            await too_large


@virtual
async def test_a_record_not_acknowledged_in_time_says_whether_it_may_be_stored_and_why() -> None:
    async with producing(delivery_timeout_ms=2000) as (cluster, producer):
        await (await producer.send("orders", b"0"))

        def refuse(_: pb.ProduceRequest.Item) -> None:
            raise refused(errors_pb2.NOT_ENOUGH_REPLICAS, "1 of 2 in sync")

        cluster.brokers[1].before_append = refuse
        with pytest.raises(errors.DeliveryTimedOut, match="1 of 2 in sync") as caught:
            await (await producer.send("orders", b"1"))
        assert not caught.value.outcome_unknown
        cluster.brokers[1].before_append = lambda _: None
        cluster.brokers[1].answers.clear()
        with pytest.raises(errors.DeliveryTimedOut) as caught:
            await (await producer.send("orders", b"2"))
        assert caught.value.outcome_unknown
        cluster.brokers[1].answers.set()
        assert (await (await producer.send("orders", b"3"))).offset == 2
        assert cluster.log("orders").values == [b"0", b"2", b"3"]


@virtual
async def test_a_broker_that_cannot_be_reached_is_named_by_who_waited_in_vain() -> None:
    async with producing(delivery_timeout_ms=2000) as (cluster, producer):
        await (await producer.send("orders", b"0"))
        cluster.kill(1)
        with pytest.raises(errors.DeliveryTimedOut, match=r"broker 1: .*refused"):
            await (await producer.send("orders", b"1"))


@virtual
async def test_records_for_a_topic_that_is_deleted_fail_and_one_of_its_name_is_another() -> None:
    async with producing() as (cluster, producer):
        await (await producer.send("orders", b"old"))
        cluster.move_leader("orders", 0, None)
        waiting = await producer.send("orders", b"lost")
        await asyncio.sleep(0.1)
        cluster.delete_topic("orders")
        with pytest.raises(errors.UnknownTopicId, match="deleted"):
            await waiting
        with pytest.raises(errors.UnknownTopic):
            await producer.send("orders", b"too late")
        cluster.create_topic("orders", [2])
        assert (await (await producer.send("orders", b"new"))).offset == 0
        assert cluster.log("orders").values == [b"new"]


@pytest.mark.parametrize("behind", [1, 2])
@virtual
async def test_a_new_leader_is_found_though_one_of_those_left_has_not_heard_of_it(behind: int) -> None:
    """If it is the one that tells us of leaders: every five seconds another one is asked."""
    async with producing((1, 2, 3)) as (cluster, producer):
        for number in range(3):
            await (await producer.send("orders", b"0", partition=number))
        cluster.brokers[behind].is_behind = True
        cluster.kill(3)
        cluster.move_leader("orders", 2, 3 - behind)
        started_ms = cluster.client.clock.monotonic_ms()
        await (await producer.send("orders", b"1", partition=2))
        assert cluster.client.clock.monotonic_ms() - started_ms < 15_000


@virtual
async def test_closing_with_no_time_fails_what_is_left_and_says_what_may_be_stored() -> None:
    async with producing() as (cluster, producer):
        await (await producer.send("orders", b"0"))
        cluster.brokers[1].answers.clear()
        delivery = await producer.send("orders", b"1")
        await until(lambda: len(cluster.log("orders").values) == 2)
        await producer.close(timeout=0.1)
        with pytest.raises(errors.ClientClosed) as caught:
            delivery.result()
        assert caught.value.outcome_unknown
        with pytest.raises(errors.ClientClosed):
            await producer.flush()


@virtual
async def test_a_flush_that_takes_too_long_says_so_and_may_be_repeated() -> None:
    async with producing() as (cluster, producer):
        await (await producer.send("orders", b"0"))
        cluster.brokers[1].answers.clear()
        delivery = await producer.send("orders", b"1")
        with pytest.raises(errors.TimedOut):
            await producer.flush(timeout=0.2)
        cluster.brokers[1].answers.set()
        await producer.flush(timeout=5)
        assert delivery.done()


# -- anything at any time


class Chaos:
    """Refuses, lies about what it stored, moves leaders, kills and cuts off brokers."""

    def __init__(self, cluster: FakeCluster, dice: Random, partitions: int) -> None:
        self._cluster = cluster
        self._dice = dice
        self._partitions = partitions
        self.is_over = False
        for broker in cluster.brokers.values():
            broker.before_append, broker.after_append = self._before, self._after

    def _before(self, _: pb.ProduceRequest.Item) -> None:
        if not self.is_over and self._dice.random() < 0.1:
            code = self._dice.choice([errors_pb2.NOT_ENOUGH_REPLICAS, errors_pb2.UNKNOWN_LEADER_EPOCH])
            raise refused(code)

    def _after(self, _: pb.ProduceRequest.Item) -> None:
        if not self.is_over and self._dice.random() < 0.1:
            code = self._dice.choice([errors_pb2.TIMED_OUT, errors_pb2.NOT_LEADER, errors_pb2.STORAGE_FAILED])
            raise refused(code)

    async def run(self) -> None:
        cluster, dice = self._cluster, self._dice
        while not self.is_over:
            await asyncio.sleep(dice.uniform(0.01, 0.5))
            match dice.choice(["move", "move", "move", "break", "cut", "heal", "hold", "answer", "restart"]):
                case "move":
                    leader = dice.choice([1, 2, 3, 3, None])
                    cluster.move_leader("orders", dice.randrange(self._partitions), leader, tells=dice.random() < 0.8)
                case "break":
                    cluster.network.break_connections("client", f"broker-{dice.randint(1, 3)}")
                case "cut":
                    cluster.cut_off(dice.randint(1, 3))
                case "heal":
                    cluster.heal()
                case "hold":
                    dice.choice(list(cluster.brokers.values())).answers.clear()
                case "answer":
                    dice.choice(list(cluster.brokers.values())).answers.set()
                case "restart":
                    number = dice.randint(1, 3)
                    cluster.kill(number)
                    await asyncio.sleep(dice.uniform(0, 1))
                    await cluster.start(number)
                    broker = cluster.brokers[number]
                    broker.before_append, broker.after_append = self._before, self._after

    def end(self) -> None:
        self.is_over = True
        self._cluster.heal()
        for broker in self._cluster.brokers.values():
            broker.answers.set()
        for number in range(self._partitions):
            self._cluster.move_leader("orders", number, self._dice.randint(1, 3))


@pytest.mark.parametrize("seed", range(12))
@virtual
async def test_under_any_faults_all_is_stored_in_order_and_once(seed: int) -> None:
    dice = Random(seed)
    compression = dice.choice(["none", "lz4"])
    async with producing((1, 2), seed=seed, batch_bytes=400, compression=compression) as (cluster, producer):
        await (await producer.send("orders", b"0-0", partition=0))
        await (await producer.send("orders", b"1-0", partition=1))
        chaos = Chaos(cluster, dice, partitions=2)
        running = asyncio.ensure_future(chaos.run())
        sent: dict[int, list[Delivery]] = {0: [], 1: []}
        for number in range(1, 300):
            for partition, deliveries in sent.items():
                value = b"%d-%d" % (partition, number)
                deliveries.append(await producer.send("orders", value, partition=partition))
            if dice.random() < 0.2:
                await asyncio.sleep(dice.uniform(0, 0.3))
        chaos.end()
        await running
        chaos.end()
        await producer.flush(timeout=60)
        for partition, deliveries in sent.items():
            assert [delivery.result().offset for delivery in deliveries] == list(range(1, 300))
            expected = [b"%d-%d" % (partition, number) for number in range(300)]
            assert cluster.log("orders", partition).values == expected
