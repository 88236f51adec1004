"""The leader's side of replication streams. The follower is played by hand."""

import asyncio
import gc
import weakref
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from support.fake_controllers import until
from support.raft_nodes import make_runtime, virtual
from support.replication_fakes import (
    CLUSTER,
    DIRECTORY,
    FOLLOWER,
    LEADER,
    TOPIC,
    ByHand,
    LeadersPartition,
    LeadersPartitions,
    image,
)

from lograft.broker.following import Acknowledge
from lograft.broker.replica_errors import ReplicaError
from lograft.broker.replication_codec import REPLICATE
from lograft.broker.replication_feeding import FeedingLimits
from lograft.broker.replication_source import ReplicationSource, SourceLimits
from lograft.broker.throttle import Throttle
from lograft.chaos.virtual_network import VirtualNetwork
from lograft.metadata.partition import LeaderEpoch, PartitionEpoch
from lograft.metadata.stream_errors import read_detail
from lograft.proto import errors_pb2
from lograft.proto import replication_pb2 as pb
from lograft.runtime.network import Status, StreamError
from lograft.runtime.rng import Rng
from lograft.storage.epochs import EpochEntry
from lograft.storage.errors import CorruptLog

ADDRESS = "leader:9092"
KIB = 1024
MIB = 1024 * 1024
PLENTY = 1 << 40


def hello(**changes: object) -> pb.ReplicaHello:
    fields = {"cluster_id": CLUSTER, "broker_id": FOLLOWER, "broker_epoch": 22, "leader_id": LEADER, **changes}
    return pb.ReplicaHello(**fields)  # type: ignore[arg-type]


def subscribe(
    handle: int, partition: int = 0, end_offset: int = 0, last_epoch: int = -1, **changes: object
) -> pb.Subscribe:
    fields = {
        "handle": handle,
        "topic_id": TOPIC.bytes,
        "partition": partition,
        "leader_epoch": 1,
        "end_offset": end_offset,
        "last_epoch": last_epoch,
        "directory_id": DIRECTORY.bytes,
        "partition_epoch": 3,
        **changes,
    }
    return pb.Subscribe(**fields)  # type: ignore[arg-type]


def acknowledgement(handle: int, end_offset: int, leader_epoch: int = 1) -> pb.ReplicaAcknowledgement:
    return pb.ReplicaAcknowledgement(handle=handle, leader_epoch=leader_epoch, end_offset=end_offset, partition_epoch=3)


class World:
    def __init__(self, partitions: int, limits: SourceLimits | None) -> None:
        self.network = VirtualNetwork(Rng(1))
        self.partitions = [LeadersPartition() for _ in range(partitions)]
        runtime = make_runtime(1, self.network, "leader")
        self.source = ReplicationSource(runtime, CLUSTER, LEADER, LeadersPartitions(*self.partitions), image, limits)
        self.panics: list[BaseException] = []

    async def open(self, host: str = "follower") -> ByHand:
        connection = await self.network.host(host).connect(ADDRESS)
        return ByHand(connection.open(REPLICATE))

    async def follow(self, *subscriptions: pb.Subscribe, window_bytes: int = PLENTY) -> ByHand:
        follower = await self.open()
        await follower.say(hello=hello(), subscribe=subscriptions, window_bytes=window_bytes)
        return follower


@asynccontextmanager
async def world(partitions: int = 1, limits: SourceLimits | None = None) -> AsyncIterator[World]:
    made = World(partitions, limits)
    server = await made.network.host("leader").serve(ADDRESS, made.source.handlers(), made.panics.append)
    try:
        yield made
    finally:
        await server.stop()
        assert not made.panics
        assert not any(partition.feeds for partition in made.partitions), "a stream's end closes its feeds"


async def keep_alive(follower: ByHand) -> None:
    while True:
        await asyncio.sleep(0.4)
        await follower.stream.send(b"")


async def refusal(follower: ByHand) -> StreamError:
    with pytest.raises(StreamError) as caught:
        await follower.next()
    return caught.value


def code_of(error: StreamError) -> int:
    detail = read_detail(error)
    assert detail is not None
    return detail.code


# -- who may follow


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"cluster_id": "another"}, errors_pb2.WRONG_CLUSTER),
        ({"leader_id": 3}, errors_pb2.INVALID_REQUEST),
        ({"broker_epoch": 21}, errors_pb2.STALE_BROKER_EPOCH),
    ],
)
@virtual
async def test_who_does_not_belong_here_is_refused(changes: dict[str, object], code: int) -> None:
    async with world() as one:
        follower = await one.open()
        await follower.say(hello=hello(**changes), subscribe=[subscribe(1)], window_bytes=PLENTY)
        assert code_of(await refusal(follower)) == code
        assert one.partitions[0].subscribers == []


@pytest.mark.parametrize(
    "messages",
    [
        [pb.ReplicateRequest(window_bytes=1).SerializeToString()],
        [b"\xff\xff\xff"],
        [pb.ReplicateRequest(hello=hello()).SerializeToString(), b"\xff\xff\xff"],
        [pb.ReplicateRequest(hello=hello()).SerializeToString()] * 2,
        [pb.ReplicateRequest(hello=hello(), subscribe=[subscribe(1), subscribe(1)]).SerializeToString()],
        [pb.ReplicateRequest(hello=hello(), subscribe=[subscribe(1, topic_id=b"short")]).SerializeToString()],
        [pb.ReplicateRequest(hello=hello(), subscribe=[subscribe(1, directory_id=b"")]).SerializeToString()],
        [pb.ReplicateRequest(hello=hello(), subscribe=[subscribe(1, end_offset=-1)]).SerializeToString()],
        [
            pb.ReplicateRequest(
                hello=hello(), subscribe=[subscribe(1)], acknowledgements=[acknowledgement(1, 0)]
            ).SerializeToString()
        ],
    ],
    ids=[
        "no hello", "garbage", "garbage later", "two hellos", "a handle twice", "no topic id", "no directory",
        "a negative end", "acknowledged before it was matched",
    ],
)  # fmt: skip
@virtual
async def test_what_makes_no_sense_ends_the_stream_and_nothing_else(messages: list[bytes]) -> None:
    async with world() as one:
        follower = await one.open()
        for message in messages:
            await follower.stream.send(message)
        with pytest.raises(StreamError) as caught:
            await follower.until(lambda: False)
        assert code_of(caught.value) == errors_pb2.INVALID_REQUEST


@virtual
async def test_a_broker_has_one_stream_the_latest() -> None:
    async with world() as one:
        first = await one.follow(subscribe(1))
        await first.next()
        second = await one.follow(subscribe(2))
        assert (await second.next()).matched[0].handle == 2
        assert (await refusal(first)).status is Status.ABORTED
        one.partitions[0].append(b"x")
        await second.until(lambda: len(second.frames(2)) == 1)


@virtual
async def test_a_process_that_was_succeeded_by_another_is_refused_though_the_metadata_do_not_say_so_yet() -> None:
    async with world() as one:
        follower = await one.open()
        await follower.say(hello=hello(broker_epoch=50), subscribe=[subscribe(1)])
        assert (await follower.next()).matched[0].handle == 1
        stale = await one.follow(subscribe(2))
        assert code_of(await refusal(stale)) == errors_pb2.STALE_BROKER_EPOCH
        assert len(one.partitions[0].feeds) == 1


# -- subscriptions and their answers


@virtual
async def test_a_subscription_says_who_it_is_and_where_its_log_ends() -> None:
    async with world() as one:
        follower = await one.follow(subscribe(5, end_offset=0))
        await follower.next()
        ((subscriber, request),) = one.partitions[0].subscribers
        assert (subscriber.broker_id, subscriber.broker_epoch, subscriber.directory_id) == (FOLLOWER, 22, DIRECTORY)
        assert (subscriber.number, request.number) == (5, 5)
        assert (request.leader_epoch, request.partition_epoch) == (1, 3)
        assert (request.end_offset, request.last_epoch) == (0, None)


@virtual
async def test_what_follows_the_end_is_sent_once_it_is_matched() -> None:
    async with world() as one:
        one.partitions[0].append(b"aa", b"bb", b"cc")
        one.partitions[0].high_watermark = 2
        follower = await one.follow(subscribe(1, end_offset=1, last_epoch=1))
        await follower.until(lambda: bool(follower.frames(1)))
        matched = follower.responses[0].matched
        assert [(one.handle, one.high_watermark, one.log_start) for one in matched] == [(1, 2, 0)]
        (frame,) = follower.frames(1)
        assert (frame.start, frame.end, frame.batches) == (1, 3, b"bbcc")
        assert (frame.high_watermark, frame.log_start, list(frame.epochs)) == (2, 0, [])


@virtual
async def test_a_frame_has_the_epochs_that_begin_in_it() -> None:
    async with world() as one:
        one.partitions[0].append(b"aa")
        follower = await one.follow(subscribe(1))
        await follower.until(lambda: bool(follower.frames(1)))
        (epoch,) = follower.frames(1)[0].epochs
        assert (epoch.epoch, epoch.start_offset) == (1, 0)


@virtual
async def test_a_log_that_is_no_beginning_is_to_be_cut_and_gets_no_frames() -> None:
    async with world() as one:
        one.partitions[0].append(b"aa", b"bb")
        follower = await one.follow(subscribe(1, end_offset=9, last_epoch=1))
        (order,) = (await follower.next()).truncate
        assert (order.handle, order.epoch, order.end_offset) == (1, 1, 2)
        assert one.partitions[0].feeds == []
        await follower.say(unsubscribe=[1], subscribe=[subscribe(2, end_offset=2, last_epoch=1)])
        assert (await follower.next()).matched[0].handle == 2


@virtual
async def test_a_log_that_ends_before_the_leaders_starts_over() -> None:
    async with world() as one:
        partition = one.partitions[0]
        partition.start_offset = 100
        partition.epochs.replace_all([EpochEntry(7, 100)])
        partition.append(b"aa")
        follower = await one.follow(subscribe(1, end_offset=9, last_epoch=1))
        (order,) = (await follower.next()).reset
        assert (order.handle, order.log_start, order.producers) == (1, 100, b"producers")
        assert [(epoch.epoch, epoch.start_offset) for epoch in order.epochs] == [(7, 100)]


@virtual
async def test_one_that_is_refused_does_not_disturb_the_others() -> None:
    async with world(2) as one:
        follower = await one.follow(
            subscribe(1, partition=9), subscribe(2, partition=0, leader_epoch=4), subscribe(3, partition=1)
        )
        await follower.until(lambda: sum(len(one.refused) + len(one.matched) for one in follower.responses) == 3)
        refused = {one.handle: one.error for response in follower.responses for one in response.refused}
        assert refused[1].code == errors_pb2.UNKNOWN_TOPIC_ID
        assert (refused[2].code, refused[2].leader_epoch) == (errors_pb2.FENCED_LEADER_EPOCH, 5)
        assert refused[2].leader_address == "broker-1:9092"
        one.partitions[1].append(b"x")
        await follower.until(lambda: bool(follower.frames(3)))


@virtual
async def test_a_partition_that_is_led_by_another_now_is_refused_and_the_others_go_on() -> None:
    async with world(2) as one:
        follower = await one.follow(subscribe(1), subscribe(2, partition=1))
        await follower.until(lambda: sum(len(one.matched) for one in follower.responses) == 2)
        one.partitions[0].end(ReplicaError(errors_pb2.NOT_LEADER, "another", leader_id=3, leader_epoch=2))
        one.partitions[0].append(b"x")
        one.partitions[1].append(b"y")
        await follower.until(lambda: bool(follower.frames(2)))
        refused = [one for response in follower.responses for one in response.refused]
        assert [(one.handle, one.error.code, one.error.leader_id) for one in refused] == [(1, errors_pb2.NOT_LEADER, 3)]
        assert follower.frames(1) == []
        await follower.say(acknowledgements=[acknowledgement(1, 1), acknowledgement(2, 1)])
        await until(lambda: len(one.partitions[1].acknowledged) == 1)
        assert one.partitions[0].acknowledged == []


@virtual
async def test_one_whose_log_takes_long_to_compare_holds_up_nobody() -> None:
    async with world(2) as one:
        one.partitions[0].matching_ms = 400
        follower = await one.follow(subscribe(1), subscribe(2, partition=1))
        assert [matched.handle for matched in (await follower.next()).matched] == [2]
        one.partitions[1].append(b"x")
        await follower.until(lambda: bool(follower.frames(2)))
        await follower.say(acknowledgements=[acknowledgement(2, 1)])
        await until(lambda: len(one.partitions[1].acknowledged) == 1)
        assert [handle for one in follower.responses for matched in one.matched for handle in [matched.handle]] == [2]
        await follower.until(lambda: len(follower.responses[-1].matched) == 1)


@virtual
async def test_who_unsubscribes_gets_nothing_more() -> None:
    async with world(2) as one:
        one.partitions[1].matching_ms = 50
        follower = await one.follow(subscribe(1), subscribe(2, partition=1))
        await follower.next()
        await follower.say(unsubscribe=[1, 2, 77])
        await until(lambda: one.partitions[0].feeds == [])
        one.partitions[0].append(b"x")
        await asyncio.sleep(0.1)
        assert one.partitions[1].feeds == [], "neither when it was yet to be answered"
        await follower.say(subscribe=[subscribe(3)])
        await follower.until(lambda: bool(follower.frames(3)))
        assert follower.frames(1) == follower.frames(2) == []


@virtual
async def test_who_unsubscribes_before_its_turn_is_not_looked_at() -> None:
    async with world(2, SourceLimits(matching_at_once=1)) as one:
        one.partitions[0].matching_ms = 100
        follower = await one.follow(subscribe(1), subscribe(2, partition=1))
        await follower.say(unsubscribe=[2])
        assert (await follower.next()).matched[0].handle == 1
        assert one.partitions[1].subscribers == []


@virtual
async def test_no_more_logs_are_compared_than_the_follower_takes_answers() -> None:
    async with world(200) as one:
        for partition in one.partitions:
            partition.start_offset, partition.producers = 100, bytes(200 * KIB)
        follower = await one.follow(
            *(subscribe(number + 1, partition=number, end_offset=9, last_epoch=1) for number in range(200))
        )
        await asyncio.sleep(0.5)
        assert sum(len(partition.subscribers) for partition in one.partitions) < 60
        await follower.until(lambda: sum(len(response.reset) for response in follower.responses) == 200)


@virtual
async def test_there_is_a_limit_to_subscriptions() -> None:
    async with world(1, SourceLimits(subscriptions=2)) as one:
        follower = await one.follow(subscribe(1), subscribe(2), subscribe(3))
        assert code_of(await refusal(follower)) == errors_pb2.INVALID_REQUEST


# -- acknowledgements


@virtual
async def test_acknowledgements_go_to_the_replica_with_all_they_say() -> None:
    async with world() as one:
        one.partitions[0].append(b"x")
        follower = await one.follow(subscribe(1))
        await follower.until(lambda: bool(follower.frames(1)))
        await follower.say(acknowledgements=[acknowledgement(99, 1), acknowledgement(1, 1, leader_epoch=4)])
        await until(lambda: bool(one.partitions[0].acknowledged))
        assert one.partitions[0].acknowledged == [Acknowledge(1, LeaderEpoch(4), PartitionEpoch(3), 1)]


@virtual
async def test_an_acknowledgement_of_what_was_not_sent_ends_that_subscription() -> None:
    async with world(2) as one:
        follower = await one.follow(subscribe(1), subscribe(2, partition=1))
        await follower.until(lambda: sum(len(one.matched) for one in follower.responses) == 2)
        await follower.say(acknowledgements=[acknowledgement(1, 50), acknowledgement(2, 0)])
        (refused,) = (await follower.next()).refused
        assert (refused.handle, refused.error.code) == (1, errors_pb2.INVALID_REQUEST)
        assert one.partitions[0].feeds == []
        assert len(one.partitions[1].feeds) == 1


# -- frames


@virtual
async def test_frames_that_are_ready_together_travel_together() -> None:
    async with world(50) as one:
        follower = await one.follow(*(subscribe(number + 1, partition=number) for number in range(50)))
        await follower.until(lambda: sum(len(one.matched) for one in follower.responses) == 50)
        for partition in one.partitions:
            partition.append(b"x" * KIB, b"y" * KIB)
        message = await follower.next()
        assert sorted(frame.handle for frame in message.frames) == list(range(1, 51))
        assert all(frame.end == 2 for frame in message.frames)


# -- small messages


UNHURRIED = SourceLimits(FeedingLimits(hold_ms=200))


@asynccontextmanager
async def followed_with_one_frame_sent(size_bytes: int) -> AsyncIterator[tuple[World, ByHand]]:
    async with world(2, UNHURRIED) as one:
        follower = await one.follow(subscribe(1), subscribe(2, partition=1))
        await follower.until(lambda: sum(len(response.matched) for response in follower.responses) == 2)
        one.partitions[0].append(b"x" * size_bytes)
        await follower.until(lambda: bool(follower.frames(1)))
        yield one, follower


@virtual
async def test_what_becomes_ready_behind_a_small_message_goes_together_when_that_is_acknowledged() -> None:
    async with followed_with_one_frame_sent(KIB) as (one, follower):
        for _ in range(3):
            one.partitions[0].append(b"y" * KIB)
            one.partitions[1].append(b"z" * KIB)
            await asyncio.sleep(0.01)
        assert [len(partition.reads) for partition in one.partitions] == [1, 0]
        await follower.say(acknowledgements=[acknowledgement(1, 1)])
        async with asyncio.timeout(0.05):
            message = await follower.next()
        assert sorted((frame.handle, frame.start, frame.end) for frame in message.frames) == [(1, 1, 4), (2, 0, 3)]


@virtual
async def test_an_acknowledgement_that_does_not_come_is_waited_for_no_longer_than_a_while() -> None:
    async with followed_with_one_frame_sent(KIB) as (one, follower):
        one.partitions[1].append(b"z")
        await follower.say(acknowledgements=[acknowledgement(1, 0)])  # of what was before it
        await asyncio.sleep(0.15)
        assert one.partitions[1].reads == []
        async with asyncio.timeout(0.1):
            await follower.until(lambda: bool(follower.frames(2)))


@virtual
async def test_nothing_waits_behind_a_large_message() -> None:
    async with followed_with_one_frame_sent(200 * KIB) as (one, follower):
        one.partitions[1].append(b"z")
        async with asyncio.timeout(0.05):
            await follower.until(lambda: bool(follower.frames(2)))


@virtual
async def test_nothing_waits_for_who_has_unsubscribed() -> None:
    async with followed_with_one_frame_sent(KIB) as (one, follower):
        one.partitions[1].append(b"z")
        await follower.say(unsubscribe=[1])
        async with asyncio.timeout(0.05):
            await follower.until(lambda: bool(follower.frames(2)))


# -- the window


@virtual
async def test_no_more_is_sent_than_the_window_takes_and_what_was_too_much_is_owed() -> None:
    async with world() as one:
        one.partitions[0].append(*[b"x" * 300 * KIB] * 12)
        limits = SourceLimits(FeedingLimits(frame_bytes=300 * KIB, message_bytes=300 * KIB))
        one.source.limits = limits
        follower = await one.follow(subscribe(1), window_bytes=1000 * KIB)
        await asyncio.sleep(0.3)
        await follower.until(lambda: len(follower.frames(1)) == 4)
        await follower.say(window_bytes=100 * KIB)  # 200 were owed
        await asyncio.sleep(0.3)
        assert one.partitions[0].reads[-1][0] == 3, "nothing was read in vain"
        await follower.say(window_bytes=101 * KIB)
        await follower.until(lambda: len(follower.frames(1)) == 5)
        await asyncio.sleep(0.3)
        assert len(one.partitions[0].reads) == 5


@virtual
async def test_a_batch_is_sent_whatever_its_size() -> None:
    async with world() as one:
        one.partitions[0].append(b"x" * 20 * MIB)
        follower = await one.follow(subscribe(1), window_bytes=1)
        await follower.until(lambda: bool(follower.frames(1)))
        assert len(follower.frames(1)[0].batches) == 20 * MIB


@virtual
async def test_a_message_has_no_more_than_goes_well_together() -> None:
    async with world(600) as one:
        for partition in one.partitions[:10]:
            partition.append(b"x" * 900 * KIB)
        for partition in one.partitions[10:]:
            partition.append(b"x")
        follower = await one.follow(*(subscribe(number + 1, partition=number) for number in range(600)))
        await follower.until(lambda: sum(len(response.frames) for response in follower.responses) == 600)
        sizes = [sum(len(frame.batches) for frame in response.frames) for response in follower.responses]
        assert max(sizes) < 2 * MIB
        assert max(len(response.frames) for response in follower.responses) == 256


@virtual
async def test_no_window_no_frames() -> None:
    async with world() as one:
        follower = await one.follow(subscribe(1), window_bytes=0)
        await follower.next()
        one.partitions[0].append(b"x")
        one.partitions[0].commit(1)
        await follower.until(lambda: bool(follower.watermarks(1)))  # they cost nothing
        assert follower.frames(1) == []
        await follower.say(window_bytes=1)
        await follower.until(lambda: bool(follower.frames(1)))


@virtual
async def test_partitions_take_turns() -> None:
    async with world(3) as one:
        for partition in one.partitions:
            partition.append(*[b"x" * MIB] * 10)
        follower = await one.follow(*(subscribe(number + 1, partition=number) for number in range(3)))
        await follower.until(lambda: sum(len(response.frames) for response in follower.responses) == 30)
        order = [frame.handle for response in follower.responses for frame in response.frames]
        assert all(sorted(order[at : at + 3]) == [1, 2, 3] for at in range(3, 27, 3))


@virtual
async def test_one_that_is_far_behind_reads_from_disk_while_the_others_go_on() -> None:
    async with world(2) as one:
        behind, ahead = one.partitions
        behind.append(*[b"x" * MIB] * 40)
        behind.memory_start, behind.disk_ms = 40, 100
        follower = await one.follow(subscribe(1), subscribe(2, partition=1))
        await follower.until(lambda: sum(len(one.matched) for one in follower.responses) == 2)
        for number in range(10):
            ahead.append(b"new")
            await follower.until(lambda number=number: len(follower.frames(2)) == number + 1, within_s=0.09)  # type: ignore[misc]
        await follower.until(lambda: len(follower.frames(1)) == 2)
        assert {max_bytes for _, max_bytes in behind.reads} == {MIB}, "in bounded chunks"


@virtual
async def test_what_was_read_from_disk_and_not_sent_yet_is_bounded() -> None:
    async with world(6) as one:
        for partition in one.partitions:
            partition.append(*[b"x" * MIB] * 3)
            partition.memory_start, partition.disk_ms = 3, 100
        follower = await one.follow(*(subscribe(number + 1, partition=number) for number in range(6)), window_bytes=1)
        await asyncio.sleep(0.05)
        assert sum(len(partition.reads) for partition in one.partitions) == 2
        await asyncio.sleep(0.2)
        assert sum(len(partition.reads) for partition in one.partitions) == 3, "one was sent, and the window is closed"
        await follower.say(window_bytes=PLENTY)
        await follower.until(lambda: sum(len(response.frames) for response in follower.responses) == 18)


@virtual
async def test_one_that_unsubscribes_after_it_was_read_makes_room_for_the_next() -> None:
    async with world(3, SourceLimits(FeedingLimits(reads_at_once=1))) as one:
        for partition in one.partitions[:2]:
            partition.append(b"x")
            partition.memory_start, partition.disk_ms = 1, 50
        follower = await one.follow(subscribe(1), subscribe(2, partition=1), subscribe(3, partition=2), window_bytes=1)
        await until(lambda: len(one.partitions[0].reads) == 1)
        one.partitions[2].append(b"all of the window")
        await follower.until(lambda: bool(follower.frames(3)))
        await asyncio.sleep(0.1)
        await follower.say(unsubscribe=[1], window_bytes=PLENTY)
        await follower.until(lambda: bool(follower.frames(2)))
        assert follower.frames(1) == []


@virtual
async def test_one_that_unsubscribes_while_it_is_read_makes_room_for_the_next() -> None:
    limits = SourceLimits(FeedingLimits(reads_at_once=1))
    async with world(2, limits) as one:
        for partition in one.partitions:
            partition.append(b"x")
            partition.memory_start, partition.disk_ms = 1, 200
        follower = await one.follow(subscribe(1), subscribe(2, partition=1))
        await until(lambda: len(one.partitions[0].reads) == 1)
        await follower.say(unsubscribe=[1])
        await follower.until(lambda: bool(follower.frames(2)))
        assert follower.frames(1) == []


@virtual
async def test_a_replica_that_cannot_be_read_is_refused() -> None:
    async with world() as one:
        partition = one.partitions[0]
        partition.append(b"x")
        partition.memory_start, partition.disk_ms = 1, 50
        follower = await one.follow(subscribe(1))
        await until(lambda: len(partition.reads) == 1)
        partition.end(ReplicaError(errors_pb2.STORAGE_FAILED, "it is corrupt"))
        await follower.until(lambda: bool(follower.responses[-1:]) and len(follower.responses[-1].refused) == 1)
        assert follower.frames(1) == []


@virtual
async def test_a_log_that_turns_out_to_be_corrupt_is_not_sent_on() -> None:
    async with world(2) as one:
        one.partitions[0].read_error = CorruptLog("a segment", 5, "nonsense")
        for partition in one.partitions:
            partition.append(b"x")
        follower = await one.follow(subscribe(1), subscribe(2, partition=1))
        await follower.until(lambda: any(response.refused for response in follower.responses))
        await follower.until(lambda: bool(follower.frames(2)))
        (refused,) = [refused for response in follower.responses for refused in response.refused]
        assert (refused.handle, refused.error.code) == (1, errors_pb2.STORAGE_FAILED)
        assert one.partitions[0].feeds == []


# -- watermarks and signs of life


@virtual
async def test_news_of_the_watermark_go_with_the_next_frame() -> None:
    async with world() as one:
        follower = await one.follow(subscribe(1))
        await follower.next()
        one.partitions[0].append(b"a")
        await follower.until(lambda: len(follower.frames(1)) == 1)
        one.partitions[0].commit(1)
        one.partitions[0].append(b"b")
        await follower.until(lambda: len(follower.frames(1)) == 2)
        await asyncio.sleep(0.1)
        one.partitions[0].append(b"c")
        await follower.until(lambda: len(follower.frames(1)) == 3)
        assert [frame.high_watermark for frame in follower.frames(1)] == [0, 1, 1]
        assert follower.watermarks(1) == []


@virtual
async def test_news_of_watermarks_alone_are_sent_soon_and_together() -> None:
    async with world(3) as one:
        follower = await one.follow(*(subscribe(number + 1, partition=number) for number in range(3)))
        for partition in one.partitions:
            partition.append(b"x", b"y")
        await follower.until(lambda: sum(len(response.frames) for response in follower.responses) >= 3)
        before = len(follower.responses)
        for partition in one.partitions:
            partition.commit(1)
        await asyncio.sleep(0.002)
        for partition in one.partitions:
            partition.commit(2)
        async with asyncio.timeout(0.06):
            message = await follower.next()
        assert len(follower.responses) == before + 1
        assert [(news.handle, news.high_watermark) for news in message.watermarks] == [(1, 2), (2, 2), (3, 2)]


@virtual
async def test_the_follower_hears_where_the_log_starts() -> None:
    async with world() as one:
        one.partitions[0].append(b"x", b"y")
        follower = await one.follow(subscribe(1))
        await follower.until(lambda: bool(follower.frames(1)))
        one.partitions[0].start_offset = 1
        del one.partitions[0].batches[0]
        one.partitions[0].tell()
        (news,) = (await follower.next()).watermarks
        assert news.log_start == 1


@virtual
async def test_something_is_said_every_half_second() -> None:
    async with world() as one:
        follower = await one.follow(subscribe(1))
        beating = asyncio.ensure_future(keep_alive(follower))
        for _ in range(10):
            async with asyncio.timeout(0.6):
                await follower.stream.receive()
        beating.cancel()


@virtual
async def test_a_follower_that_is_silent_is_given_up() -> None:
    async with world() as one:
        follower = await one.follow(subscribe(1))
        await follower.next()
        beating = asyncio.ensure_future(keep_alive(follower))
        await asyncio.sleep(5)
        assert len(one.partitions[0].feeds) == 1
        beating.cancel()
        await asyncio.sleep(1)
        assert len(one.partitions[0].feeds) == 1
        await asyncio.sleep(0.6)
        assert one.partitions[0].feeds == []


@virtual
async def test_feeds_end_with_the_stream() -> None:
    async with world(2) as one:
        one.partitions[1].matching_ms = 500
        follower = await one.follow(subscribe(1), subscribe(2, partition=1))
        await follower.next()
        one.network.crash("follower")
        await until(lambda: one.partitions[0].feeds == [], within_s=0.3)
        await asyncio.sleep(1)
        assert one.partitions[1].feeds == []


@virtual
async def test_who_has_said_its_last_is_let_go() -> None:
    async with world() as one:
        follower = await one.follow(subscribe(1))
        await follower.next()
        await follower.stream.half_close()
        assert await follower.stream.receive() is None
        assert one.partitions[0].feeds == []


# -- throttled


class Receiving:
    """What a follower has got so far: bytes of batches by handle."""

    def __init__(self, follower: ByHand) -> None:
        self.sizes: Counter[int] = Counter()
        self._follower = follower
        self._tasks = [asyncio.ensure_future(keep_alive(follower)), asyncio.ensure_future(self._receive())]

    async def _receive(self) -> None:
        while True:
            for frame in (await self._follower.next()).frames:
                self.sizes[frame.handle] += len(frame.batches)

    async def within(self, seconds: float) -> int:
        """How much comes."""
        before = self.sizes.total()
        await asyncio.sleep(seconds)
        return self.sizes.total() - before

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()


@pytest.mark.parametrize("memory_start", [0, 1000], ids=["memory", "disk"])
@virtual
async def test_replicas_that_are_added_get_no_more_than_the_throttle_lets_through_and_hold_up_nobody(
    memory_start: int,
) -> None:
    async with world(partitions=3) as made:
        made.source.throttle = Throttle(lambda: 100 * KIB, 0)
        for partition in made.partitions[:2]:
            partition.is_throttled, partition.memory_start = True, memory_start
            partition.append(*(bytes(4 * KIB) for _ in range(1000)))
        receiving = Receiving(await made.follow(*(subscribe(number, number) for number in range(3))))
        assert 900 * KIB < await receiving.within(10) < 1100 * KIB
        assert receiving.sizes[0] == pytest.approx(receiving.sizes[1], rel=0.1)
        made.partitions[2].append(b"urgent")
        await asyncio.sleep(0.05)
        assert receiving.sizes[2] == len(b"urgent")
        receiving.stop()


@virtual
async def test_another_rate_counts_at_once() -> None:
    async with world() as made:
        rate = 10 * KIB
        made.source.throttle = Throttle(lambda: rate, 0)
        made.partitions[0].is_throttled = True
        made.partitions[0].append(*(bytes(4 * KIB) for _ in range(10_000)))
        receiving = Receiving(await made.follow(subscribe(0)))
        assert await receiving.within(10) < 120 * KIB
        rate = 1000 * KIB
        assert await receiving.within(10) > 9000 * KIB
        made.partitions[0].is_throttled = False
        assert await receiving.within(3) > 9000 * KIB
        receiving.stop()


@virtual
async def test_a_replica_that_is_in_sync_meanwhile_does_not_wait_for_what_others_took() -> None:
    """Writers wait for it from now on, and the throttle may have to make up for days."""
    async with world(partitions=2) as made:
        made.source.throttle = Throttle(lambda: 1, 0)
        for partition in made.partitions:
            partition.is_throttled = True
            partition.append(bytes(100 * KIB))
        receiving = Receiving(await made.follow(subscribe(0), subscribe(1, 1)))
        await receiving.within(1)
        (late,) = [number for number in range(2) if not receiving.sizes[number]]
        made.partitions[late].is_throttled = False
        made.partitions[late].append(b"urgent")
        await receiving.within(0.1)
        assert receiving.sizes[late] == 100 * KIB + len(b"urgent")
        receiving.stop()


@virtual
async def test_who_gives_up_waiting_for_the_throttle_is_forgotten() -> None:
    """The throttle may have to make up for days, and followers may subscribe anew every few seconds."""
    async with world(partitions=50) as made:
        made.source.throttle = Throttle(lambda: 1, 0)
        for partition in made.partitions:
            partition.is_throttled = True
            partition.append(bytes(100 * KIB))
        receiving = Receiving(await made.follow(*(subscribe(number, number) for number in range(50))))
        await receiving.within(1)
        assert len(receiving.sizes) < 5
        feeds = [weakref.ref(partition.feeds[0]) for partition in made.partitions]
        for partition in made.partitions:
            partition.end(ReplicaError(errors_pb2.UNAVAILABLE, "subscribe anew"))
        await receiving.within(1)
        gc.collect()
        kept = [feed for feed in feeds if feed() is not None]
        assert len(kept) <= SourceLimits().matching_at_once, "but for those that were matched last"
        receiving.stop()
