"""The leader's side of replication streams: who may follow, what it acknowledges, and what it hears without asking."""

import asyncio
from uuid import UUID

import pytest
from support.fake_controllers import until
from support.followers_by_hand import PLENTY, acknowledgement, code_of, hello, keep_alive, refusal, subscribe, world
from support.metadata_images import broker, image_with
from support.raft_nodes import virtual
from support.replication_fakes import DIRECTORY, FOLLOWER, TOPIC

from lograft.broker.replication.follower_core import Acknowledge
from lograft.metadata.image.partition import LeaderEpoch, PartitionEpoch
from lograft.proto import errors_pb2
from lograft.proto import replication_pb2 as pb
from lograft.runtime.network import Status, StreamError

# -- who may follow


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"cluster_id": "another"}, errors_pb2.WRONG_CLUSTER),
        ({"leader_id": 3}, errors_pb2.INVALID_REQUEST),
        ({"broker_epoch": 21}, errors_pb2.STALE_BROKER_EPOCH),
        ({"broker_epoch": 23}, errors_pb2.UNAVAILABLE),
        ({"broker_epoch": 2**62}, errors_pb2.UNAVAILABLE),
        ({"broker_id": 4, "broker_epoch": 44}, errors_pb2.UNAVAILABLE),
        ({"broker_id": 1, "broker_epoch": 11}, errors_pb2.INVALID_REQUEST),
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
        [pb.ReplicateRequest(hello=hello(), without_room=[pb.ReplicaWithoutRoom()]).SerializeToString()],
        [
            pb.ReplicateRequest(
                hello=hello(), subscribe=[subscribe(1)], acknowledgements=[acknowledgement(1, 0)]
            ).SerializeToString()
        ],
    ],
    ids=[
        "no hello", "garbage", "garbage later", "two hellos", "a handle twice", "no topic id", "no directory",
        "a negative end", "no topic id of one without room", "acknowledged before it was matched",
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
async def test_an_epoch_that_was_never_given_out_shuts_nobody_out() -> None:
    async with world() as one:
        follower = await one.follow(subscribe(1))
        assert (await follower.next()).matched[0].handle == 1
        stranger = await one.open("stranger")
        await stranger.say(hello=hello(broker_epoch=2**62), subscribe=[subscribe(2)], window_bytes=PLENTY)
        assert code_of(await refusal(stranger)) == errors_pb2.UNAVAILABLE
        one.partitions[0].append(b"x")
        await follower.until(lambda: len(follower.frames(1)) == 1)
        again = await one.follow(subscribe(3))
        assert (await again.next()).matched[0].handle == 3


@virtual
async def test_a_process_that_was_succeeded_by_another_is_heard_no_more() -> None:
    async with world() as one:
        follower = await one.follow(subscribe(1))
        assert (await follower.next()).matched[0].handle == 1
        one.image = image_with(broker(1, epoch=11), broker(2, epoch=50, directories=[DIRECTORY]))
        await follower.say(acknowledgements=[acknowledgement(1, 0)])
        assert code_of(await refusal(follower)) == errors_pb2.STALE_BROKER_EPOCH
        assert one.partitions[0].acknowledged == []


@virtual
async def test_a_replica_in_a_directory_that_was_not_registered_counts_for_nothing() -> None:
    async with world() as one:
        follower = await one.follow(subscribe(1, directory_id=UUID(int=98).bytes), subscribe(2))
        await follower.until(lambda: any(response.matched for response in follower.responses))
        (refused,) = (refused for response in follower.responses for refused in response.refused)
        assert (refused.handle, refused.error.code) == (1, errors_pb2.INELIGIBLE_REPLICA)
        assert [subscriber.directory_id for subscriber, _ in one.partitions[0].subscribers] == [DIRECTORY]


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


@virtual
async def test_a_follower_cannot_have_what_is_not_sent_yet() -> None:
    async with world() as one:
        one.partitions[0].append(b"x", b"y")
        follower = await one.follow(subscribe(1), window_bytes=0)
        await follower.next()
        await follower.say(acknowledgements=[acknowledgement(1, 2)])
        (refused,) = (await follower.next()).refused
        assert (refused.handle, refused.error.code) == (1, errors_pb2.INVALID_REQUEST)
        assert one.partitions[0].acknowledged == []


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


# -- barriers


@virtual
async def test_a_barrier_is_sent_at_once_and_its_answer_is_passed_on() -> None:
    async with world(partitions=2) as one:
        follower = await one.follow(subscribe(1), subscribe(2, partition=1))
        await follower.until(lambda: sum(len(each.matched) for each in follower.responses) == 2)
        asked_at = asyncio.get_running_loop().time()
        number = one.partitions[0].ask_barrier()
        news = [each for each in (await follower.next()).watermarks if each.barrier]
        assert [(each.handle, each.barrier) for each in news] == [(1, number)]
        assert asyncio.get_running_loop().time() - asked_at < 0.005, "it does not wait for frames to go with"
        await follower.say(barriers=[pb.ReplicaBarrier(handle=1, leader_epoch=7, number=number)])
        await until(lambda: one.partitions[0].barriers_answered == [(7, number)])
        assert one.partitions[1].barriers_answered == []


@virtual
async def test_a_barrier_that_waits_is_sent_on_a_later_subscription_too() -> None:
    async with world() as one:
        number = one.partitions[0].ask_barrier()
        follower = await one.follow(subscribe(1))
        await follower.until(lambda: any(each.barrier for one in follower.responses for each in one.watermarks))
        await follower.say(unsubscribe=[1], barriers=[pb.ReplicaBarrier(handle=1, leader_epoch=1, number=number)])
        await follower.say(subscribe=[subscribe(2)])
        await follower.until(
            lambda: any(each.handle == 2 and each.barrier for one in follower.responses for each in one.watermarks)
        )
        assert one.partitions[0].barriers_answered == [], "that subscription was over when it was said"


@virtual
async def test_a_follower_without_room_is_made_known_to_the_replica() -> None:
    async with world(partitions=2) as one:
        follower = await one.follow(subscribe(7))
        for partition in (1, 5):  # there is no partition 5 here
            lacking = pb.ReplicaWithoutRoom(topic_id=TOPIC.bytes, partition=partition, leader_epoch=4)
            await follower.say(without_room=[lacking])
        await until(lambda: one.partitions[1].without_room == [(FOLLOWER, 4)])
        assert one.partitions[0].without_room == []
        await until(lambda: len(one.partitions[0].subscribers) == 1)


@virtual
async def test_an_answer_to_a_barrier_that_was_not_sent_is_refused() -> None:
    async with world() as one:
        follower = await one.follow(subscribe(1))
        await follower.until(lambda: any(each.matched for each in follower.responses))
        await follower.say(barriers=[pb.ReplicaBarrier(handle=1, leader_epoch=1, number=5)])
        await follower.until(lambda: any(each.refused for each in follower.responses))
        assert follower.responses[-1].refused[0].error.code == errors_pb2.INVALID_REQUEST
