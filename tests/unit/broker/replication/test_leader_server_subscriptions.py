"""What a leader answers who subscribes: matched, to be cut, to start over, refused; each for itself."""

import asyncio

from support.fake_controllers import until
from support.followers_by_hand import KIB, acknowledgement, code_of, refusal, subscribe, world
from support.raft_nodes import virtual
from support.replication_fakes import DIRECTORY, FOLLOWER

from lograft.broker.replication.leader_server import LeaderServerLimits
from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ReplicaError
from lograft.storage.state.epoch_cache import EpochEntry


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
    async with world(2, LeaderServerLimits(matching_at_once=1)) as one:
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
    async with world(1, LeaderServerLimits(subscriptions=2)) as one:
        follower = await one.follow(subscribe(1), subscribe(2), subscribe(3))
        assert code_of(await refusal(follower)) == errors_pb2.INVALID_REQUEST
