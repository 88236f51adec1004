"""The follower's side of replication streams: what it appends, acknowledges and takes, and from whom."""

from support.fake_controllers import until
from support.leaders_by_hand import WINDOW, frame, stays, world
from support.raft_nodes import virtual
from support.replication_fakes import led_by

from lograft.proto import replication_pb2 as pb
from lograft.storage.state.epoch_cache import EpochEntry

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


# -- barriers


@virtual
async def test_a_barrier_is_answered_under_the_subscription_that_it_came_by() -> None:
    async with world() as one:
        one.follow()
        handle = await one.match()
        assert one.leader.subscribes()[0].answers_barriers
        asked = [pb.ReplicaWatermark(handle=handle, barrier=number) for number in (3, 4)]
        await one.leader.say(watermarks=asked)
        await until(lambda: bool(one.leader.barriers()))
        (said,) = one.leader.barriers()
        assert (said.handle, said.leader_epoch, said.number) == (handle, 1, 4)


@virtual
async def test_who_does_not_follow_any_more_answers_no_barrier() -> None:
    """It may lead by now, in a later epoch."""
    async with world() as one:
        one.follow(1)  # that keeps the stream
        followed = one.follow(0)
        handle = await one.match()
        one.sink.unfollow(followed)
        anew = one.follow(leader_epoch=2)
        await one.leader.say(watermarks=[pb.ReplicaWatermark(handle=handle, barrier=3)])
        later = await one.handle_of(count=2)
        await one.leader.say(watermarks=[pb.ReplicaWatermark(handle=later, barrier=4)])  # it is not matched yet
        await stays(lambda: one.leader.barriers() == [])
        await one.match(count=2)
        await until(lambda: anew.core.is_matched(later))
        anew.core.end()
        await one.leader.say(watermarks=[pb.ReplicaWatermark(handle=later, barrier=5)])
        await stays(lambda: one.leader.barriers() == [])
