"""The follower's side of replication streams. The leader is played by hand."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest
from support.fake_controllers import until
from support.raft_nodes import make_runtime, virtual
from support.replication_fakes import CLUSTER, DIRECTORY, FOLLOWER, TOPIC, FollowersPartition, led_by
from support.virtual_log import make_batch

from lograft.broker.matching import TruncateTo
from lograft.broker.replication_codec import REPLICATE
from lograft.broker.replication_following import FollowingLimits
from lograft.broker.replication_ports import ResetTo
from lograft.broker.replication_sink import FollowingBroker, LeaderStreams, SinkLimits
from lograft.chaos.virtual_network import VirtualNetwork, VirtualServer
from lograft.metadata.partition import BrokerEpoch, BrokerId
from lograft.proto import errors_pb2
from lograft.proto import replication_pb2 as pb
from lograft.runtime.network import Stream
from lograft.runtime.rng import Rng
from lograft.storage.epochs import EpochEntry
from lograft.storage.header import parse_header
from lograft.storage.producer_state import ProducerState

WINDOW = 1_000_000


class Leader:
    """Takes note of what is said on each stream, and says what a test tells it to on the latest."""

    def __init__(self) -> None:
        self.streams: list[list[pb.ReplicateRequest]] = []  # signs of life left out
        self.opened_ms: list[float] = []
        self.signs_of_life = 0
        self.is_mute = False
        self.stream: Stream | None = None

    @property
    def heard(self) -> list[pb.ReplicateRequest]:
        return self.streams[-1] if self.streams else []

    async def serve(self, stream: Stream) -> None:
        self.stream = stream
        heard: list[pb.ReplicateRequest] = []
        self.streams.append(heard)
        self.opened_ms.append(asyncio.get_running_loop().time() * 1000)
        async with asyncio.TaskGroup() as group:
            beating = group.create_task(self._beat(stream))
            while (data := await stream.receive()) is not None:
                if data:
                    heard.append(pb.ReplicateRequest.FromString(data))
                else:
                    self.signs_of_life += 1
            beating.cancel()

    async def _beat(self, stream: Stream) -> None:
        while True:
            await asyncio.sleep(0.4)
            if not self.is_mute:
                await stream.send(b"")

    async def say(self, **fields: object) -> None:
        assert self.stream is not None
        await self.stream.send(pb.ReplicateResponse(**fields).SerializeToString())  # type: ignore[arg-type]

    def subscribes(self, partition: int = 0) -> list[pb.Subscribe]:
        return [one for message in self.heard for one in message.subscribe if one.partition == partition]

    def acknowledgements(self) -> list[pb.ReplicaAcknowledgement]:
        return [one for message in self.heard for one in message.acknowledgements]

    def granted(self) -> int:
        return sum(message.window_bytes for message in self.heard)

    def unsubscribed(self) -> list[int]:
        return [handle for message in self.heard for handle in message.unsubscribe]


class World:
    def __init__(self, network: VirtualNetwork) -> None:
        self.network = network
        self.leaders = {1: Leader(), 3: Leader()}
        self.servers: dict[int, VirtualServer] = {}
        self.addresses: dict[BrokerId, str] = {BrokerId(1): "b1:9092", BrokerId(3): "b3:9092"}
        runtime = make_runtime(1, network, "follower")
        follower = FollowingBroker(CLUSTER, FOLLOWER, lambda: BrokerEpoch(22), self.addresses.get)
        self.sink = LeaderStreams(runtime, follower, SinkLimits(following=FollowingLimits(window_bytes=WINDOW)))

    @property
    def leader(self) -> Leader:
        return self.leaders[1]

    def partition(self, number: int = 0, leader: int = 1, leader_epoch: int = 1, **options: bool) -> FollowersPartition:
        return FollowersPartition(self.sink, led_by(leader, leader_epoch), number, **options)

    def follow(self, number: int = 0, leader: int = 1, leader_epoch: int = 1, **options: bool) -> FollowersPartition:
        followed = self.partition(number, leader, leader_epoch, **options)
        self.sink.follow(followed)
        return followed

    async def handle_of(self, number: int = 0, count: int = 1, leader: int = 1) -> int:
        """Of the `count`th subscription to a partition on the stream."""
        await until(lambda: len(self.leaders[leader].subscribes(number)) >= count)
        return self.leaders[leader].subscribes(number)[count - 1].handle

    async def match(self, number: int = 0, count: int = 1, high_watermark: int = 0) -> int:
        handle = await self.handle_of(number, count)
        matched = pb.ReplicaMatched(handle=handle, high_watermark=high_watermark, log_start=0)
        await self.leader.say(matched=[matched])
        return handle


def frame(handle: int, start: int, content: bytes = b"x", **changes: object) -> pb.ReplicaFrame:
    fields = {"handle": handle, "start": start, "end": start + 1, "batches": content, **changes}
    return pb.ReplicaFrame(**fields)  # type: ignore[arg-type]


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    def fail(panic: BaseException) -> None:
        raise AssertionError from panic

    made = World(VirtualNetwork(Rng(1)))
    for number, leader in made.leaders.items():
        host = made.network.host(f"b{number}")
        made.servers[number] = await host.serve(f"b{number}:9092", {REPLICATE: leader.serve}, fail)
    running = asyncio.ensure_future(made.sink.run())
    try:
        yield made
        assert not running.done(), running
    finally:
        running.cancel()
        await asyncio.wait([running])


async def stays(condition: Callable[[], bool], for_s: float = 1) -> None:
    await asyncio.sleep(for_s)
    assert condition()


# -- subscribing


@virtual
async def test_the_first_message_says_who_follows_and_how_much_it_takes() -> None:
    async with world() as one:
        one.follow()
        await one.handle_of()
        hello = one.leader.heard[0].hello
        assert (hello.cluster_id, hello.broker_id, hello.broker_epoch, hello.leader_id) == (CLUSTER, FOLLOWER, 22, 1)
        assert one.leader.granted() == WINDOW
        assert not any(message.HasField("hello") for message in one.leader.heard[1:])


@virtual
async def test_a_subscription_says_how_the_log_ends() -> None:
    async with world() as one:
        followed = one.partition()
        followed.has_log(9, (3, 0), (5, 4))
        one.sink.follow(followed)
        await one.handle_of()
        (said,) = one.leader.subscribes()
        assert (said.topic_id, said.partition, said.directory_id) == (TOPIC.bytes, 0, DIRECTORY.bytes)
        assert (said.leader_epoch, said.partition_epoch) == (1, 1)
        assert (said.end_offset, said.last_epoch) == (9, 5)


@virtual
async def test_an_empty_log_has_no_last_epoch() -> None:
    async with world() as one:
        one.follow()
        await one.handle_of()
        assert one.leader.subscribes()[0].last_epoch == -1


@virtual
async def test_nothing_is_subscribed_before_it_is_durable_and_the_others_do_not_wait_for_it() -> None:
    async with world() as one:
        slow = one.partition(0)
        slow.has_settled.clear()
        one.sink.follow(slow)
        one.follow(1)
        await one.handle_of(1)
        await stays(lambda: one.leader.subscribes(0) == [])
        slow.has_settled.set()
        await one.handle_of(0)


@virtual
async def test_there_is_one_stream_to_each_leader() -> None:
    async with world() as one:
        for number in range(20):
            one.follow(number, leader=1 if number % 2 else 3)
        await until(lambda: sum(len(one.leaders[leader].subscribes(19)) for leader in (1, 3)) == 1)
        await until(lambda: sum(len(one.leaders[leader].subscribes(18)) for leader in (1, 3)) == 1)
        assert [len(one.leaders[leader].streams) for leader in (1, 3)] == [1, 1]
        handles = [
            said.handle for leader in (1, 3) for number in range(20) for said in one.leaders[leader].subscribes(number)
        ]
        assert len(set(handles)) == 20


@virtual
async def test_what_was_followed_before_it_runs_is_followed_then() -> None:
    async with world() as one:
        other = LeaderStreams(
            make_runtime(2, one.network, "other"),
            FollowingBroker(CLUSTER, BrokerId(4), lambda: BrokerEpoch(44), one.addresses.get),
        )
        other.follow(FollowersPartition(other, led_by(1)))
        running = asyncio.ensure_future(other.run())
        await until(lambda: len(one.leader.subscribes()) == 1)
        running.cancel()


@virtual
async def test_a_log_is_cut_as_told_and_subscribes_again_when_that_is_durable() -> None:
    async with world() as one:
        followed = one.partition()
        followed.has_log(9, (1, 0))
        followed.is_cut.clear()
        one.sink.follow(followed)
        handle = await one.handle_of()
        await one.leader.say(truncate=[pb.ReplicaTruncate(handle=handle, epoch=1, end_offset=4)])
        await until(lambda: followed.orders == [TruncateTo(1, 4)])
        await stays(lambda: len(one.leader.subscribes()) == 1)
        followed.is_cut.set()
        again = await one.handle_of(count=2)
        assert again > handle
        assert one.leader.subscribes()[1].end_offset == 4


@virtual
async def test_matching_is_repeated_as_often_as_it_takes() -> None:
    async with world() as one:
        followed = one.partition()
        followed.has_log(9, (1, 0), (2, 3), (4, 6))
        one.sink.follow(followed)
        for count, (epoch, end_offset) in enumerate([(3, 6), (1, 2)], start=1):
            handle = await one.handle_of(count=count)
            await one.leader.say(truncate=[pb.ReplicaTruncate(handle=handle, epoch=epoch, end_offset=end_offset)])
        await one.match(count=3)
        said = [(said.end_offset, said.last_epoch) for said in one.leader.subscribes()]
        assert said == [(9, 4), (6, 2), (2, 1)]
        await one.leader.say(frames=[frame(one.leader.subscribes()[2].handle, 2)])
        await until(lambda: followed.end_offset == 3)


@virtual
async def test_a_log_starts_over_as_told() -> None:
    async with world() as one:
        followed = one.partition()
        followed.has_log(9, (1, 0))
        one.sink.follow(followed)
        handle = await one.handle_of()
        known = ProducerState()
        known.update(parse_header(make_batch(producer_id=7, producer_epoch=0, base_sequence=0)), now_ms=0)
        reset = pb.ReplicaReset(
            handle=handle, log_start=50, epochs=[pb.ReplicaEpoch(epoch=6, start_offset=50)], producers=known.encode()
        )
        await one.leader.say(reset=[reset])
        await one.handle_of(count=2)
        assert followed.orders == [ResetTo(50, (EpochEntry(6, 50),), known.encode())]
        assert (one.leader.subscribes()[1].end_offset, one.leader.subscribes()[1].last_epoch) == (50, 6)


@virtual
async def test_one_that_is_refused_tries_again_by_and_by_and_the_others_go_on() -> None:
    async with world() as one:
        one.follow(0)
        other = one.follow(1)
        await one.match(1)
        times_ms = []
        for count in range(1, 9):
            handle = await one.handle_of(count=count)
            times_ms.append(asyncio.get_running_loop().time() * 1000)
            error = errors_pb2.ErrorDetail(code=errors_pb2.UNKNOWN_LEADER_EPOCH)
            await one.leader.say(refused=[pb.ReplicaRefused(handle=handle, error=error)])
        waits_ms = [after - before for before, after in pairwise(times_ms)]
        assert 15 < waits_ms[0] < 60
        assert 200 < waits_ms[-1] < 600
        assert len(one.leader.subscribes(1)) == 1
        await one.leader.say(frames=[frame(one.leader.subscribes(1)[0].handle, 0)])
        await until(lambda: other.end_offset == 1)


@virtual
async def test_one_that_made_progress_tries_again_soon() -> None:
    async with world() as one:
        one.follow()
        refusal = errors_pb2.ErrorDetail(code=errors_pb2.UNAVAILABLE)
        for count in range(1, 7):
            handle = await one.handle_of(count=count)
            await one.leader.say(refused=[pb.ReplicaRefused(handle=handle, error=refusal)])
        handle = await one.match(count=7)
        await one.leader.say(frames=[frame(handle, 0)])
        await one.leader.say(refused=[pb.ReplicaRefused(handle=handle, error=refusal)])
        await until(lambda: len(one.leader.subscribes()) == 8, within_s=0.1)


@virtual
async def test_being_matched_twice_is_being_matched() -> None:
    async with world() as one:
        followed = one.follow()
        handle = await one.match()
        await one.leader.say(frames=[frame(handle, 0)])
        await one.leader.say(matched=[pb.ReplicaMatched(handle=handle)], frames=[frame(handle, 1)])
        await until(lambda: followed.end_offset == 2)


@virtual
async def test_an_error_of_a_later_version_is_as_good_as_any() -> None:
    async with world() as one:
        one.follow()
        error = errors_pb2.ErrorDetail.FromString(b"\x08\xff\x7f")  # a code that nobody knows
        handle = await one.handle_of()
        await one.leader.say(refused=[pb.ReplicaRefused(handle=handle, error=error)])
        await one.handle_of(count=2)


@virtual
async def test_answers_to_an_earlier_subscription_are_passed_over() -> None:
    async with world() as one:
        followed = one.follow()
        old = await one.match()
        error = errors_pb2.ErrorDetail(code=errors_pb2.NOT_LEADER)
        await one.leader.say(refused=[pb.ReplicaRefused(handle=old, error=error)])
        new = await one.handle_of(count=2)
        await one.leader.say(
            matched=[pb.ReplicaMatched(handle=old)],
            truncate=[pb.ReplicaTruncate(handle=old)],
            reset=[pb.ReplicaReset(handle=old)],
            refused=[pb.ReplicaRefused(handle=old, error=error)],
            frames=[frame(old, 0)],
            watermarks=[pb.ReplicaWatermark(handle=old, high_watermark=1)],
        )
        await one.leader.say(matched=[pb.ReplicaMatched(handle=new)], frames=[frame(new, 0, b"new")])
        await until(lambda: followed.contents == [b"new"])
        assert followed.orders == []
        await stays(lambda: len(one.leader.subscribes()) == 2)


# -- following


@virtual
async def test_what_comes_is_appended_and_acknowledged_when_it_is_durable() -> None:
    async with world() as one:
        followed = one.follow(is_synced=False)
        handle = await one.match()
        epochs = [pb.ReplicaEpoch(epoch=1, start_offset=0)]
        await one.leader.say(frames=[frame(handle, 0, b"aa", epochs=epochs, high_watermark=1), frame(handle, 1, b"bb")])
        await until(lambda: followed.contents == [b"aa", b"bb"])
        assert list(followed.epochs) == [EpochEntry(1, 0)]
        assert followed.core.high_watermark == 1
        await stays(lambda: one.leader.acknowledgements() == [])
        followed.sync()
        await until(lambda: bool(one.leader.acknowledgements()))
        (said,) = one.leader.acknowledgements()
        assert (said.handle, said.leader_epoch, said.partition_epoch, said.end_offset) == (handle, 1, 1, 2)


@virtual
async def test_news_of_the_watermark_are_taken() -> None:
    async with world() as one:
        followed = one.follow()
        handle = await one.match()
        await one.leader.say(frames=[frame(handle, 0)])
        await one.leader.say(watermarks=[pb.ReplicaWatermark(handle=handle, high_watermark=1)])
        await until(lambda: followed.core.high_watermark == 1)


@virtual
async def test_acknowledgements_that_are_ready_together_travel_together() -> None:
    async with world() as one:
        partitions = [one.follow(number, is_synced=False) for number in range(30)]
        handles = [await one.match(number) for number in range(30)]
        await one.leader.say(frames=[frame(handle, 0) for handle in handles])
        await until(lambda: all(followed.end_offset == 1 for followed in partitions))
        before = len(one.leader.heard)
        for followed in partitions:
            followed.sync()
            followed.sync()
        await until(lambda: len(one.leader.acknowledgements()) == 30)
        assert len(one.leader.heard) == before + 1


@virtual
async def test_another_partition_epoch_is_acknowledged_though_nothing_new_is_durable() -> None:
    async with world() as one:
        followed = one.follow()
        handle = await one.match()
        followed.change_epoch(led_by(1, partition_epoch=8))
        await until(lambda: bool(one.leader.acknowledgements()))
        (said,) = one.leader.acknowledgements()
        assert (said.handle, said.partition_epoch, said.end_offset) == (handle, 8, 0)


@virtual
async def test_a_partition_epoch_that_changed_before_it_was_matched_is_acknowledged_then() -> None:
    async with world() as one:
        followed = one.follow()
        await one.handle_of()
        followed.change_epoch(led_by(1, partition_epoch=8))
        await stays(lambda: one.leader.acknowledgements() == [])
        await one.match()
        await until(lambda: bool(one.leader.acknowledgements()))
        assert one.leader.acknowledgements()[0].partition_epoch == 8


@virtual
async def test_a_frame_that_does_not_continue_the_log_ends_the_subscription_and_it_begins_again() -> None:
    async with world() as one:
        followed, other = one.follow(0), one.follow(1)
        handle, handle_of_other = await one.match(0), await one.match(1)
        await one.leader.say(frames=[frame(handle, 5), frame(handle, 6), frame(handle_of_other, 0)])
        await one.handle_of(count=2)
        assert one.leader.unsubscribed() == [handle]
        assert followed.end_offset == 0
        assert other.end_offset == 1
        assert len(one.leader.subscribes(1)) == 1


@virtual
async def test_a_leader_that_orders_what_it_cannot_is_subscribed_to_anew() -> None:
    async with world() as one:
        followed = one.follow()
        handle = await one.match()
        await one.leader.say(reset=[pb.ReplicaReset(handle=handle, log_start=5)])
        await one.handle_of(count=2)
        assert followed.orders == []


# -- when the leader is another


@virtual
async def test_nothing_is_said_of_a_partition_that_is_not_followed_any_more() -> None:
    async with world() as one:
        followed, _ = one.follow(0, is_synced=False), one.follow(1)
        handle = await one.match(0)
        await one.leader.say(frames=[frame(handle, 0)])
        await until(lambda: followed.end_offset == 1)
        followed.sync()
        one.sink.unfollow(followed)  # before it was said
        followed.sync()
        await until(lambda: one.leader.unsubscribed() == [handle])
        await one.leader.say(frames=[frame(handle, 1)])
        await stays(lambda: one.leader.acknowledgements() == [])
        assert followed.end_offset == 1


@virtual
async def test_a_partition_that_moves_to_another_leader_does_not_disturb_the_others() -> None:
    async with world() as one:
        moving, staying = one.follow(0), one.follow(1)
        await one.match(0)
        handle = await one.match(1)
        one.sink.unfollow(moving)
        one.follow(0, leader=3, leader_epoch=2)
        await one.handle_of(0, leader=3)
        await one.leader.say(frames=[frame(handle, 0)])
        await until(lambda: staying.end_offset == 1)
        assert len(one.leader.streams) == 1
        assert len(one.leader.subscribes(1)) == 1


@virtual
async def test_the_same_leader_in_another_epoch_is_subscribed_to_anew() -> None:
    async with world() as one:
        followed, _ = one.follow(0), one.follow(1)
        old = await one.match(0)
        one.sink.unfollow(followed)
        one.follow(0, leader_epoch=2)
        new = await one.handle_of(0, count=2)
        assert new > old
        assert one.leader.subscribes(0)[1].leader_epoch == 2
        assert one.leader.unsubscribed() == [old]


@virtual
async def test_one_that_is_given_up_while_it_settles_is_not_subscribed() -> None:
    async with world() as one:
        followed, _ = one.partition(0), one.follow(1)
        followed.has_settled.clear()
        one.sink.follow(followed)
        await one.handle_of(1)
        one.sink.unfollow(followed)
        followed.has_settled.set()
        await stays(lambda: one.leader.subscribes(0) == [])


@virtual
async def test_a_stream_that_nobody_needs_is_closed_and_opened_again_for_the_next() -> None:
    async with world() as one:
        followed = one.follow()
        await one.handle_of()
        one.sink.unfollow(followed)
        await until(lambda: not one.servers[1].connections)
        await stays(lambda: len(one.leader.streams) == 1)
        one.follow()
        await until(lambda: len(one.leader.streams) == 2)


# -- the window


@virtual
async def test_bytes_are_granted_again_once_the_disk_keeps_up() -> None:
    async with world() as one:
        followed = one.follow()
        handle = await one.match()
        followed.has_room.clear()
        await one.leader.say(frames=[frame(handle, 0, b"x" * 400_000)])
        await until(lambda: len(one.leader.acknowledgements()) == 1)
        await stays(lambda: one.leader.granted() == WINDOW)
        followed.has_room.set()
        await until(lambda: one.leader.granted() == WINDOW + 400_000)


@virtual
async def test_a_slow_disk_does_not_keep_others_from_being_heard() -> None:
    async with world() as one:
        slow, quick = one.follow(0), one.follow(1)
        handle, handle_of_quick = await one.match(0), await one.match(1)
        slow.has_room.clear()
        await one.leader.say(frames=[frame(handle, 0)])
        await stays(lambda: len(one.leader.streams) == 1, for_s=10)
        await one.leader.say(frames=[frame(handle_of_quick, 0)])
        await until(lambda: len(one.leader.acknowledgements()) == 2)
        assert quick.end_offset == 1


@virtual
async def test_small_grants_go_with_something_else() -> None:
    async with world() as one:
        followed = one.follow(is_synced=False)
        handle = await one.match()
        await one.leader.say(frames=[frame(handle, 0, b"x" * 1000)])
        await until(lambda: followed.end_offset == 1)
        await stays(lambda: one.leader.granted() == WINDOW)
        followed.sync()
        await until(lambda: one.leader.granted() == WINDOW + 1000)
        assert len(one.leader.heard[-1].acknowledgements) == 1


@virtual
async def test_a_grant_that_the_leader_may_be_waiting_for_goes_alone() -> None:
    async with world() as one:
        one.follow(is_synced=False)
        handle = await one.match()
        await one.leader.say(frames=[frame(handle, 0, b"x" * 300_000)])
        await until(lambda: one.leader.granted() == WINDOW + 300_000, within_s=0.1)


@virtual
async def test_what_nobody_wants_any_more_is_granted_again_all_the_same() -> None:
    async with world() as one:
        followed, _ = one.follow(0), one.follow(1)
        handle = await one.match(0)
        one.sink.unfollow(followed)
        for number in range(4):
            await one.leader.say(frames=[frame(handle, number, b"x" * 100_000)])
        await until(lambda: one.leader.granted() >= WINDOW + 300_000)


# -- the stream


@virtual
async def test_a_stream_that_breaks_is_made_again_and_everything_subscribed_anew() -> None:
    async with world() as one:
        followed = one.follow(0)
        one.follow(1)
        old = await one.match(0)
        await one.leader.say(frames=[frame(old, 0)])
        await until(lambda: bool(one.leader.acknowledgements()))
        one.network.break_connections("b1", "follower")
        await until(lambda: len(one.leader.streams) == 2)
        new = await one.match(0)
        assert followed.unsubscribed_numbers == [old]
        assert new > old
        assert one.leader.subscribes(0)[0].end_offset == 1
        assert one.leader.granted() == WINDOW
        await one.leader.say(frames=[frame(new, 1)])
        await until(lambda: followed.end_offset == 2)
        await until(lambda: bool(one.leader.acknowledgements()))
        assert one.leader.acknowledgements()[0].handle == new


@virtual
async def test_a_stream_that_worked_is_made_again_soon_with_jitter() -> None:
    async with world() as one:
        one.follow()
        waits_ms = []
        for count in range(1, 9):
            await until(lambda count=count: len(one.leader.streams) == count)  # type: ignore[misc]
            await one.match()
            await asyncio.sleep(0.1)
            broken_ms = asyncio.get_running_loop().time() * 1000
            one.network.break_connections("b1", "follower")
            await until(lambda count=count: len(one.leader.streams) > count)  # type: ignore[misc]
            waits_ms.append(one.leader.opened_ms[-1] - broken_ms)
        assert all(20 <= wait_ms < 60 for wait_ms in waits_ms)
        assert len({round(wait_ms) for wait_ms in waits_ms}) > 4


@virtual
async def test_a_leader_that_does_not_answer_is_tried_less_and_less_often() -> None:
    async with world() as one:
        del one.addresses[BrokerId(1)]
        asked_ms: list[float] = []

        def address_of(broker_id: BrokerId) -> None:
            asked_ms.append(asyncio.get_running_loop().time() * 1000)

        runtime = make_runtime(2, one.network, "other")
        other = LeaderStreams(runtime, FollowingBroker(CLUSTER, BrokerId(4), lambda: BrokerEpoch(44), address_of))
        other.follow(FollowersPartition(other, led_by(1)))
        running = asyncio.ensure_future(other.run())
        await asyncio.sleep(10)
        running.cancel()
        waits_ms = [after - before for before, after in pairwise(asked_ms)]
        assert 19 <= waits_ms[0] <= 41
        assert all(249 <= wait_ms <= 501 for wait_ms in waits_ms[6:])


@virtual
async def test_a_leader_that_stops_in_good_order_is_not_waited_for() -> None:
    async with world() as one:
        one.follow()
        await one.handle_of()
        async with asyncio.timeout(1):
            await one.servers[1].stop(grace_ms=5000)


@virtual
async def test_what_is_followed_or_not_when_it_does_not_run_any_more_is_no_matter() -> None:
    async with world() as one:
        runtime = make_runtime(2, one.network, "other")
        other = LeaderStreams(
            runtime, FollowingBroker(CLUSTER, BrokerId(4), lambda: BrokerEpoch(44), one.addresses.get)
        )
        running = asyncio.ensure_future(other.run())
        await asyncio.sleep(0.1)
        running.cancel()
        await asyncio.wait([running])
        followed = FollowersPartition(other, led_by(1))
        other.follow(followed)
        other.has_acknowledgement(followed)
        other.unfollow(followed)
        other.has_acknowledgement(followed)


@virtual
async def test_a_leader_that_is_silent_is_given_up() -> None:
    async with world() as one:
        one.follow()
        await one.handle_of()
        await stays(lambda: len(one.leader.streams) == 1, for_s=10)
        one.leader.is_mute = True
        await stays(lambda: len(one.leader.streams) == 1, for_s=0.9)
        await until(lambda: len(one.leader.streams) == 2, within_s=0.9)


@virtual
async def test_something_is_said_every_half_second() -> None:
    async with world() as one:
        one.follow()
        await one.handle_of()
        await asyncio.sleep(10.1)
        assert 19 <= one.leader.signs_of_life <= 21
        assert len(one.leader.streams) == 1


@virtual
async def test_a_leader_whose_address_is_not_known_is_followed_when_it_is() -> None:
    async with world() as one:
        address = one.addresses.pop(BrokerId(1))
        one.follow()
        await stays(lambda: one.leader.streams == [])
        one.addresses[BrokerId(1)] = address
        await one.handle_of()


@pytest.mark.parametrize("data", [b"\xff\xff\xff", None], ids=["garbage", "the end"])
@virtual
async def test_a_leader_that_ends_the_stream_or_cannot_be_understood_is_connected_to_anew(data: bytes | None) -> None:
    async with world() as one:
        one.follow()
        await one.handle_of()
        stream = one.leader.stream
        assert stream is not None
        if data is None:
            stream.reset()
        else:
            await stream.send(data)
        await until(lambda: len(one.leader.streams) == 2)
        await one.handle_of()
