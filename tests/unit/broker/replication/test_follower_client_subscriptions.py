"""A follower says how its log ends, does what it is told, and asks again until it is matched."""

import asyncio
from itertools import pairwise

from support.fake_controllers import until
from support.leaders_by_hand import WINDOW, Leader, frame, stays, world
from support.raft_nodes import make_runtime, virtual
from support.replication_fakes import CLUSTER, DIRECTORY, FOLLOWER, TOPIC, FollowersPartition, led_by
from support.virtual_log import make_batch

from lograft.broker.replication.follower_client import FollowerClient, FollowerIdentity
from lograft.broker.replication.interfaces import ResetTo
from lograft.broker.replication.log_matching import TruncateTo
from lograft.metadata.image.partition import BrokerEpoch, BrokerId
from lograft.proto import errors_pb2
from lograft.proto import replication_pb2 as pb
from lograft.storage.batch.header import parse_header
from lograft.storage.state.epoch_cache import EpochEntry
from lograft.storage.state.producer_state import ProducerState


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
async def test_a_leader_is_told_again_and_again_that_a_replica_has_no_room() -> None:
    """It may not have heard of its election yet."""
    async with world() as one:
        full = one.partition(3)
        full.lacks_room = True
        full.has_settled.clear()
        one.sink.follow(full)
        one.follow(1)
        await until(lambda: len(without_room(one.leader)) == 3, within_s=3)
        (said,) = {(each.topic_id, each.partition, each.leader_epoch) for each in without_room(one.leader)}
        assert said == (TOPIC.bytes, 3, full.leader_epoch)
        assert one.leader.subscribes(3) == []
        full.lacks_room = False
        full.has_settled.set()
        await one.handle_of(3)
        told = len(without_room(one.leader))
        await stays(lambda: len(without_room(one.leader)) == told)


def without_room(leader: Leader) -> list[pb.ReplicaWithoutRoom]:
    return [each for message in leader.heard for each in message.without_room]


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
        other = FollowerClient(
            make_runtime(2, one.network, "other"),
            FollowerIdentity(CLUSTER, BrokerId(4), lambda: BrokerEpoch(44), one.addresses.get),
        )
        other.follow(FollowersPartition(led_by(1)))
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
