"""A coordinator's partition: loaded before it answers, everything written before it is told, members' time watched."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from support.metadata_images import brokers, image_with, partition, topic_id, with_records
from support.served_replicas import FakeReplica, batch
from support.virtual_log import virtual

from lograft.broker.groups.membership import JOIN, LEAVE, Heartbeat, MemberAnswer
from lograft.broker.groups.offsets import OffsetCaller, ToCommit
from lograft.broker.groups.offsets_partition import GroupContext, OffsetsPartition
from lograft.broker.groups.state import Member
from lograft.broker.replica.timers import ReplicaTimers
from lograft.chaos.world.loop import VirtualClock
from lograft.metadata.config.effective_settings import CLUSTER
from lograft.metadata.image.partition import TopicId
from lograft.metadata.image.records import ConfigChanged, PartitionChanged, TopicCreated
from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ReplicaError
from lograft.runtime.disk.disk_writer import DiskFailed
from lograft.storage.batch.header import HEADER_BYTES
from lograft.storage.errors import BatchTooLarge
from lograft.storage.log.log_config import LogConfig

ORDERS = TopicId(topic_id(1))
FIRST = (ORDERS, 0)
JOINING = Heartbeat("g", "a", JOIN, topics=("orders",))
LOST = ReplicaError(errors_pb2.NOT_LEADER, "broker 2 leads", leader_id=2, leader_epoch=6)


class Broker:
    """With a topic of two partitions."""

    def __init__(self) -> None:
        self.clock = VirtualClock(asyncio.get_running_loop())
        self.alarms = ReplicaTimers(self.clock)
        self.image = image_with(*brokers(1))
        self.add_partitions(TopicCreated(ORDERS, "orders"), 0, 2)
        self.replica = FakeReplica()

    def add_partitions(self, *records_and_range: Any) -> None:
        *records, start, end = records_and_range
        new = [PartitionChanged(ORDERS, number, partition(1)) for number in range(start, end)]
        self.image = with_records(self.image, *records, *new)

    def lead(self) -> OffsetsPartition:
        return OffsetsPartition(
            GroupContext(self.clock, self.alarms, lambda: self.image), self.replica, 3, self.replica.leader_epoch
        )

    async def loaded(self) -> OffsetsPartition:
        led = self.lead()
        await led.load()
        return led


@asynccontextmanager
async def broker() -> AsyncIterator[Broker]:
    one = Broker()
    async with asyncio.TaskGroup() as group:
        alarms = group.create_task(one.alarms.run())
        yield one
        alarms.cancel()


def members_of(led: OffsetsPartition) -> dict[str, Member]:
    group = led.group("g")
    assert group is not None
    return group.members


async def refusal(call: Awaitable[object]) -> ReplicaError:
    with pytest.raises(ReplicaError) as refused:
        await call
    return refused.value


def beat(told: MemberAnswer, **others: Any) -> Heartbeat:
    return replace(JOINING, epoch=told.epoch, owned=told.assigned, **others)


# -- loading


@virtual
async def test_it_knows_all_that_another_wrote_before() -> None:
    async with broker() as one:
        led = await one.loaded()
        told = await led.heartbeat(JOINING, 0)
        await led.commit(OffsetCaller("g", "a", told.epoch), [ToCommit(FIRST, 5)])
        led.close()
        one.replica.leader_epoch += 1
        after = await one.loaded()
        assert await after.heartbeat(beat(told), 0) == told
        assert [found[1].offset for found in await after.fetch(OffsetCaller("g"), None)] == [5]


@virtual
async def test_until_all_is_read_and_known_to_be_committed_it_says_that_it_is_loading() -> None:
    async with broker() as one:
        await (await one.loaded()).heartbeat(JOINING, 0)
        one.replica.high_watermark -= 1
        led = one.lead()
        loading = asyncio.ensure_future(led.load())
        await asyncio.sleep(1)
        assert not loading.done()
        assert (await refusal(led.heartbeat(JOINING, 0))).code == errors_pb2.LOADING
        one.replica.commit()
        await loading
        await led.heartbeat(JOINING, 0)


@virtual
async def test_a_load_ends_when_another_leads() -> None:
    async with broker() as one:
        await (await one.loaded()).heartbeat(JOINING, 0)
        one.replica.high_watermark -= 1
        led = one.lead()
        loading = asyncio.ensure_future(led.load())
        await asyncio.sleep(1)
        one.replica.lose(LOST)
        error = await refusal(loading)
        assert (error.code, error.leader_id) == (errors_pb2.NOT_COORDINATOR, 2)


@virtual
async def test_of_a_batch_that_is_damaged_nothing_is_believed_and_the_rest_is() -> None:
    """The last copy is read as it is. A bit that flipped in an offset would have a group leave out records."""
    async with broker() as one:
        led = await one.loaded()
        told = await led.heartbeat(JOINING, 0)
        for offset in (5, 6):
            await led.commit(OffsetCaller("g", "a", told.epoch), [ToCommit(FIRST, offset)])
        base_offset, end, latest = one.replica.stored[-1]
        for position in range(HEADER_BYTES, len(latest)):
            damaged = bytearray(latest)
            damaged[position] ^= 1
            one.replica.stored[-1] = base_offset, end, damaged  # type: ignore[assignment]
            one.replica.leader_epoch += 1
            after = await one.loaded()
            assert [found[1].offset for found in await after.fetch(OffsetCaller("g"), None)] == [5]


@virtual
async def test_what_is_no_record_of_a_group_is_passed_over() -> None:
    async with broker() as one:
        one.replica.append(batch("garbage"))
        await (await one.loaded()).heartbeat(JOINING, 0)


# -- telling


@virtual
async def test_nothing_is_told_before_it_is_committed() -> None:
    async with broker() as one:
        led = await one.loaded()
        one.replica.is_held = True
        asked = [
            asyncio.ensure_future(led.heartbeat(JOINING, 0)),
            asyncio.ensure_future(led.fetch(OffsetCaller("g"), None)),
        ]
        await asyncio.sleep(1)
        asked.append(asyncio.ensure_future(led.heartbeat(replace(JOINING, epoch=LEAVE), 0)))
        await asyncio.sleep(1)
        assert not any(one.done() for one in asked)
        one.replica.commit()
        await asyncio.gather(*asked)


@virtual
async def test_a_fetch_is_answered_only_by_who_still_leads_and_writes_nothing() -> None:
    async with broker() as one:
        led = await one.loaded()
        await led.commit(OffsetCaller("g"), [ToCommit(FIRST, 5)])
        end = one.replica.log_end
        assert [found[1].offset for found in await led.fetch(OffsetCaller("g"), None)] == [5]
        assert await led.fetch(OffsetCaller("nobody"), None) == []
        assert (one.replica.log_end, one.replica.barriers) == (end, 2)
        one.replica.barrier_held = True
        asked = asyncio.ensure_future(led.fetch(OffsetCaller("g"), None))
        await asyncio.sleep(1)
        assert not asked.done()
        one.replica.lose(LOST)
        assert (await refusal(asked)).code == errors_pb2.NOT_COORDINATOR


@virtual
async def test_a_fetch_does_not_wait_for_a_full_disk() -> None:
    async with broker() as one:
        led = await one.loaded()
        one.replica.has_room.clear()
        async with asyncio.timeout(1):
            assert await led.fetch(OffsetCaller("g"), None) == []


@virtual
async def test_a_fetch_is_told_what_was_committed_before_the_barrier_and_waits_for_no_more() -> None:
    async with broker() as one:
        led = await one.loaded()
        one.replica.is_held = True
        committing = asyncio.ensure_future(led.commit(OffsetCaller("g"), [ToCommit(FIRST, 5)]))
        await asyncio.sleep(1)
        one.replica.barrier_held = True
        asked = asyncio.ensure_future(led.fetch(OffsetCaller("g"), None))
        await asyncio.sleep(1)
        first_end = one.replica.log_end
        later = asyncio.ensure_future(led.commit(OffsetCaller("g"), [ToCommit(FIRST, 6)]))
        await asyncio.sleep(1)
        one.replica.pass_barrier()
        await asyncio.sleep(1)
        assert not asked.done(), "what it would be told is not committed"
        one.replica.commit(first_end)
        assert [found[1].offset for found in await asked] == [5]
        assert not later.done()
        one.replica.commit()
        await asyncio.gather(committing, later)


@virtual
async def test_beside_brokers_that_answer_no_barrier_a_fetch_is_proved_by_writing() -> None:
    async with broker() as one:
        one.replica.answers_barriers = False
        led = await one.loaded()
        end = one.replica.log_end
        await led.fetch(OffsetCaller("g"), None)
        assert one.replica.log_end > end
        one.replica.is_held = True
        asked = asyncio.ensure_future(led.fetch(OffsetCaller("g"), None))
        await asyncio.sleep(1)
        one.replica.lose(LOST)
        assert (await refusal(asked)).code == errors_pb2.NOT_LEADER


@virtual
async def test_what_was_written_and_not_committed_is_unknown_when_another_leads() -> None:
    async with broker() as one:
        led = await one.loaded()
        one.replica.is_held = True
        committing = asyncio.ensure_future(led.commit(OffsetCaller("g"), [ToCommit(FIRST, 5)]))
        await asyncio.sleep(1)
        one.replica.lose(LOST)
        error = await refusal(committing)
        assert error.outcome_unknown
        assert error.retriable
        later = await refusal(led.commit(OffsetCaller("g"), [ToCommit(FIRST, 5)]))
        assert (later.code, later.leader_id, later.outcome_unknown) == (errors_pb2.NOT_COORDINATOR, 2, False)


@virtual
async def test_what_cannot_be_written_is_not_so() -> None:
    async with broker() as one:
        led = await one.loaded()
        one.replica.append_error = ReplicaError(errors_pb2.NOT_ENOUGH_REPLICAS, "one of two is in sync")
        assert (await refusal(led.heartbeat(JOINING, 0))).code == errors_pb2.NOT_ENOUGH_REPLICAS
        assert led.group("g") is None
        one.replica.append_error = None
        await led.heartbeat(JOINING, 0)
        assert led.group("g") is not None


@virtual
async def test_what_is_not_replicated_in_time_is_unknown() -> None:
    async with broker() as one:
        led = await one.loaded()
        one.replica.is_held = True
        assert (await refusal(led.commit(OffsetCaller("g"), [ToCommit(FIRST, 5)]))).code == errors_pb2.TIMED_OUT


# -- waiting


@virtual
async def test_a_member_waits_for_news_and_is_told_at_once() -> None:
    async with broker() as one:
        led = await one.loaded()
        told = await led.heartbeat(JOINING, 0)
        waiting = asyncio.ensure_future(led.heartbeat(beat(told), 5000))
        await asyncio.sleep(1)
        assert not waiting.done()
        began_ms = one.clock.monotonic_ms()
        await led.heartbeat(replace(JOINING, member_id="b"), 0)
        assert len((await waiting).assigned) == 1
        assert one.clock.monotonic_ms() == began_ms


@virtual
async def test_a_member_is_answered_in_the_end_though_nothing_happens() -> None:
    async with broker() as one:
        led = await one.loaded()
        told = await led.heartbeat(JOINING, 0)
        began_ms = one.clock.monotonic_ms()
        assert await led.heartbeat(beat(told), 5000) == told
        assert one.clock.monotonic_ms() - began_ms == 5000


@virtual
async def test_of_two_calls_that_wait_the_later_one_says_what_is_wanted() -> None:
    async with broker() as one:
        led = await one.loaded()
        told = await led.heartbeat(JOINING, 0)
        earlier = asyncio.ensure_future(led.heartbeat(beat(told), 5000))
        await asyncio.sleep(1)
        later = asyncio.ensure_future(led.heartbeat(beat(told, topics=("orders", "prices")), 5000))
        await asyncio.sleep(1)
        written = one.replica.log_end
        await asyncio.gather(earlier, later)
        assert one.replica.log_end == written
        assert members_of(led)["a"].topics == ("orders", "prices")


@virtual
async def test_who_waits_is_told_when_another_coordinates() -> None:
    async with broker() as one:
        led = await one.loaded()
        told = await led.heartbeat(JOINING, 0)
        waiting = asyncio.ensure_future(led.heartbeat(beat(told), 5000))
        await asyncio.sleep(1)
        led.close()
        assert (await refusal(waiting)).code == errors_pb2.NOT_COORDINATOR


@virtual
async def test_topics_that_grow_are_news() -> None:
    async with broker() as one:
        led = await one.loaded()
        told = await led.heartbeat(JOINING, 0)
        waiting = asyncio.ensure_future(led.heartbeat(beat(told), 5000))
        await asyncio.sleep(1)
        one.add_partitions(2, 3)
        led.topics_changed()
        assert len((await waiting).assigned) == 3


@virtual
async def test_a_topic_that_grew_while_nothing_could_be_written_is_seen_later() -> None:
    async with broker() as one:
        led = await one.loaded()
        told = await led.heartbeat(JOINING, 0)
        one.replica.append_error = ReplicaError(errors_pb2.NOT_ENOUGH_REPLICAS, "one of two is in sync")
        one.add_partitions(2, 3)
        led.topics_changed()
        await asyncio.sleep(1)
        one.replica.append_error = None
        assert len((await led.heartbeat(beat(told), 5000)).assigned) == 3


# -- time


@virtual
async def test_who_is_silent_for_too_long_is_put_out() -> None:
    async with broker() as one:
        led = await one.loaded()
        told = await led.heartbeat(JOINING, 0)
        for _ in range(3):
            await asyncio.sleep(9)
            await led.heartbeat(beat(told), 0)
        await asyncio.sleep(9.9)
        assert members_of(led)
        await asyncio.sleep(0.2)
        assert not members_of(led)
        assert (await refusal(led.heartbeat(beat(told), 0))).code == errors_pb2.UNKNOWN_MEMBER


@virtual
async def test_a_call_that_waits_does_not_keep_a_member_alive() -> None:
    """Its process may stand still."""
    async with broker() as one:
        led = await one.loaded()
        told = await led.heartbeat(JOINING, 0)
        assert (await refusal(led.heartbeat(beat(told), 60_000))).code == errors_pb2.UNKNOWN_MEMBER


@virtual
async def test_who_gives_up_too_slowly_is_put_out() -> None:
    async with broker() as one:
        led = await one.loaded()
        slow = replace(JOINING, rebalance_timeout_ms=20_000)
        told = await led.heartbeat(slow, 0)
        await led.heartbeat(replace(JOINING, member_id="b", session_timeout_ms=60_000), 0)
        for _ in range(3):
            await asyncio.sleep(6)
            await led.heartbeat(replace(slow, epoch=told.epoch, owned=told.assigned), 0)
        await asyncio.sleep(3)
        assert sorted(members_of(led)) == ["b"]


@virtual
async def test_who_gives_up_in_time_stays() -> None:
    async with broker() as one:
        led = await one.loaded()
        slow = replace(JOINING, rebalance_timeout_ms=20_000, session_timeout_ms=60_000)
        await led.heartbeat(slow, 0)
        await led.heartbeat(replace(JOINING, member_id="b", session_timeout_ms=60_000), 0)
        member = members_of(led)["a"]
        await led.heartbeat(replace(slow, epoch=member.epoch, owned=tuple(member.target)), 0)
        await asyncio.sleep(25)
        assert sorted(members_of(led)) == ["a", "b"]


@virtual
async def test_a_member_that_cannot_be_put_out_now_is_later() -> None:
    async with broker() as one:
        led = await one.loaded()
        await led.heartbeat(JOINING, 0)
        one.replica.append_error = ReplicaError(errors_pb2.NOT_ENOUGH_REPLICAS, "one of two is in sync")
        await asyncio.sleep(15)
        assert members_of(led)
        one.replica.append_error = None
        await asyncio.sleep(1)
        assert not members_of(led)


@pytest.mark.parametrize(
    "error", [BatchTooLarge("more than a batch may have"), DiskFailed("/data", OSError("worn out"))], ids=type
)
@virtual
async def test_what_storage_says_no_to_waits_and_the_broker_lives_on(error: Exception) -> None:
    async with broker() as one:
        led = await one.loaded()
        await led.heartbeat(JOINING, 0)
        one.replica.append_error = error
        one.add_partitions(2, 3)
        led.topics_changed()
        await asyncio.sleep(15)
        assert members_of(led)
        one.replica.append_error = None
        await asyncio.sleep(1)
        assert not members_of(led)


@virtual
async def test_a_new_coordinator_gives_everybody_their_full_time() -> None:
    async with broker() as one:
        led = await one.loaded()
        told = await led.heartbeat(JOINING, 0)
        await asyncio.sleep(9)
        led.close()
        after = await one.loaded()
        await asyncio.sleep(9)
        assert await after.heartbeat(beat(told), 0) == told
        await asyncio.sleep(11)
        assert not members_of(after)


@virtual
async def test_what_nobody_will_ask_for_is_forgotten() -> None:
    async with broker() as one:
        led = await one.loaded()
        await led.commit(OffsetCaller("g"), [ToCommit(FIRST, 5)])
        led.expire()
        assert led.group("g") is not None
        await asyncio.sleep(7 * 24 * 3600)
        led.expire()
        assert led.group("g") is None
        assert (await one.loaded()).groups == []


@virtual
async def test_what_is_too_much_for_one_batch_is_forgotten_in_several() -> None:
    async with broker() as one:
        led = await one.loaded()
        one.add_partitions(2, 5000)
        await led.commit(OffsetCaller("g"), [ToCommit((ORDERS, number), 5) for number in range(5000)])
        one.replica.log_config = LogConfig(max_message_bytes=100_000)
        await asyncio.sleep(7 * 24 * 3600)
        led.expire()
        assert led.group("g") is None
        assert (await one.loaded()).groups == []


@virtual
async def test_a_group_that_is_too_much_for_one_batch_is_deleted_in_several() -> None:
    async with broker() as one:
        led = await one.loaded()
        one.add_partitions(2, 5000)
        await led.commit(OffsetCaller("g"), [ToCommit((ORDERS, number), 5) for number in range(5000)])
        one.replica.log_config = LogConfig(max_message_bytes=100_000)
        await led.delete_group("g")
        assert (await one.loaded()).groups == []


@virtual
async def test_the_clusters_settings_are_heeded_as_they_are_now() -> None:
    async with broker() as one:
        led = await one.loaded()
        settings = {"group.max.size": "1", "offsets.retention.minutes": "1"}
        one.image = with_records(one.image, *(ConfigChanged(CLUSTER, *setting) for setting in settings.items()))
        await led.heartbeat(JOINING, 0)
        error = await refusal(led.heartbeat(replace(JOINING, member_id="b"), 0))
        assert error.code == errors_pb2.GROUP_FULL
        await led.commit(OffsetCaller("h"), [ToCommit(FIRST, 5)])
        await asyncio.sleep(60)
        led.expire()
        assert led.group("h") is None
