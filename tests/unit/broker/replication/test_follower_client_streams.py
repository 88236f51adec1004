"""A follower's stream to a leader that dies, falls silent, moves or makes no sense: made again, but not too soon."""

import asyncio
from itertools import pairwise

import pytest
from support.fake_controllers import until
from support.leaders_by_hand import WINDOW, frame, stays, world
from support.raft_nodes import make_runtime, virtual
from support.replication_fakes import CLUSTER, FollowersPartition, led_by

from lograft.broker.replication.follower_client import FollowerClient, FollowerIdentity
from lograft.metadata.image.partition import BrokerEpoch, BrokerId


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
        other = FollowerClient(runtime, FollowerIdentity(CLUSTER, BrokerId(4), lambda: BrokerEpoch(44), address_of))
        other.follow(FollowersPartition(led_by(1)))
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
        other = FollowerClient(
            runtime, FollowerIdentity(CLUSTER, BrokerId(4), lambda: BrokerEpoch(44), one.addresses.get)
        )
        running = asyncio.ensure_future(other.run())
        await asyncio.sleep(0.1)
        running.cancel()
        await asyncio.wait([running])
        followed = FollowersPartition(led_by(1))
        other.follow(followed)
        followed.sync()
        other.unfollow(followed)
        followed.sync()


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


@pytest.mark.parametrize("data", [b"\xff\xff\xff", None], ids=["garbage", "a break"])
@virtual
async def test_a_leader_that_breaks_the_stream_or_cannot_be_understood_is_connected_to_anew(data: bytes | None) -> None:
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
