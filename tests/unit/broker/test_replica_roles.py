"""Replicas lead and follow as the image says: never otherwise, and one role at a time."""

import asyncio
from dataclasses import replace

import pytest
from support.metadata_images import ids
from support.replica_brokers import Metadata, TestBroker, append, place, start_brokers, until
from support.virtual_log import headers, offsets, virtual

from lograft.broker.replica import Failed, Idle, Replica
from lograft.broker.replica_errors import ReplicaError
from lograft.broker.replica_following import Following
from lograft.broker.replica_leading import Leading
from lograft.broker.replica_ports import Acks, FoundOffset, OffsetKind, OffsetSpec
from lograft.metadata.alter_partition import Alteration
from lograft.metadata.broker_states import unfence
from lograft.metadata.elect_leaders import elect_unclean_leaders
from lograft.metadata.errors import ControllerError
from lograft.metadata.log_ends import LogEnd
from lograft.metadata.partition import BrokerId, LeaderEpoch, Partition, PartitionEpoch, TopicId
from lograft.proto import errors_pb2
from lograft.storage.epochs import EpochEntry
from lograft.storage.errors import OffsetOutOfRange

ONE, TWO, THREE = ids(1, 2, 3)


async def led(metadata: Metadata, count: int = 3, **config: str) -> tuple[dict[BrokerId, TestBroker], TopicId, Replica]:
    brokers = await start_brokers(metadata, count)
    topic = metadata.create("orders", place(metadata, *range(1, count + 1)), **config)
    leader = await brokers[ONE].leads(topic)
    for number in range(2, count + 1):
        await brokers[BrokerId(number)].follows(topic)
    return brokers, topic, leader


def next_leader(partition: Partition, leader: BrokerId | None, **changes: object) -> Partition:
    return replace(
        partition,
        leader=leader,
        leader_epoch=LeaderEpoch(partition.leader_epoch + 1),
        partition_epoch=PartitionEpoch(partition.partition_epoch + 1),
        **changes,  # type: ignore[arg-type]
    )


# -- leaders come and go


@virtual
async def test_a_new_leader_begins_its_epoch_where_its_log_ends() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led(metadata)
    await append(leader, 3).outcome()
    metadata.fence(1)
    successor = await brokers[TWO].leads(topic)
    assert list(successor.log.epochs) == [EpochEntry(0, 0), EpochEntry(1, 3)]
    assert (await append(successor, 2).outcome()).base_offset == 3
    assert [header.leader_epoch for header in await headers(successor.log)] == [0, 1]
    assert isinstance(leader.role, Following)
    await until(lambda: leader.log_end == 5)


@virtual
async def test_what_a_former_leader_has_alone_is_cut_off_when_it_follows() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led(metadata)
    await append(leader).outcome()
    for follower in (TWO, THREE):
        brokers[follower].sink.stop()
    append(leader, 2)
    await leader.log.wait_stable(3)
    metadata.fence(1)
    for follower in (TWO, THREE):
        brokers[follower].sink.start()
    successor = await brokers[TWO].leads(topic)
    await append(successor, 5).outcome()
    await until(lambda: leader.log_end == 6)
    assert brokers[ONE].sink.log[0] == "TruncateTo"
    assert [(one.base_offset, one.leader_epoch) for one in await headers(leader.log)] == [(0, 0), (1, 1)]


@virtual
async def test_a_leader_of_the_next_epoch_too_begins_anew() -> None:
    metadata = Metadata()
    _, topic, leader = await led(metadata)
    role = leader.role
    pending = append(leader)
    metadata.put(topic, next_leader(metadata.partition(topic), ONE))
    assert isinstance(leader.role, Leading)
    assert leader.role is not role
    assert leader.role.core.leader_epoch == 1
    with pytest.raises(ReplicaError) as lost:
        pending.result()
    assert lost.value.outcome_unknown


@virtual
async def test_a_change_within_an_epoch_disturbs_nobody() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led(metadata)
    role, follower = leader.role, brokers[TWO].replica(topic).role
    brokers[TWO].sink.stop()
    pending = append(leader)
    metadata.fence(3)
    assert (leader.role, brokers[TWO].replica(topic).role) == (role, follower)
    assert not pending.done()
    brokers[TWO].sink.start()
    await pending.outcome()


@virtual
async def test_without_a_leader_nobody_leads_or_follows() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led(metadata, 2)
    metadata.put(topic, next_leader(metadata.partition(topic), None, isr=(), elr=metadata.partition(topic).replicas))
    assert isinstance(leader.role, Idle)
    assert isinstance(brokers[TWO].replica(topic).role, Idle)
    assert brokers[TWO].sink.followed == []
    with pytest.raises(ReplicaError) as refused:
        append(leader)
    assert refused.value.code == errors_pb2.LEADER_NOT_AVAILABLE


@virtual
async def test_a_log_in_another_directory_than_the_metadatas_is_not_led_with() -> None:
    metadata = Metadata()
    peers: dict[BrokerId, TestBroker] = {}
    broker = await TestBroker(1, metadata, peers, disks=2).start()
    first, second = metadata.image.brokers[ONE].directories
    topic = metadata.create("orders", place(metadata, 1))
    leader = await broker.leads(topic)
    moved = metadata.partition(topic).replicas[0]
    moved = replace(moved, directory_id=second)
    metadata.put(topic, next_leader(metadata.partition(topic), ONE, replicas=(moved,)))
    assert leader.identity.directory_id == first
    assert isinstance(leader.role, Idle)


@virtual
async def test_a_role_waits_until_the_log_is_free_for_it() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led(metadata)
    await append(leader).outcome()
    brokers[TWO].sink.stop()
    brokers[THREE].sink.stop()
    append(leader, 2)
    await leader.log.wait_stable(3)
    metadata.fence(1)
    metadata.carry_out(unfence(metadata.image, ONE, brokers[ONE].view.broker_epoch))
    successor = await brokers[TWO].leads(topic)
    brokers[ONE].machine.speed.slowdown = 200
    await until(lambda: leader.log.is_exclusive)
    metadata.put(topic, next_leader(metadata.partition(topic), ONE, isr=ids(1, 2)))
    assert isinstance(successor.role, Following)
    assert leader.log.is_exclusive
    assert isinstance(leader.role, Idle)
    with pytest.raises(ReplicaError) as refused:
        append(leader)
    assert refused.value.code == errors_pb2.LEADER_NOT_AVAILABLE
    brokers[ONE].machine.speed.slowdown = 1
    await until(lambda: isinstance(leader.role, Leading))
    end = leader.log_end  # the cut was interrupted, and is done or not
    assert (await append(leader, acks=Acks.LEADER).outcome()).base_offset == end


@virtual
async def test_a_cut_that_was_interrupted_is_durable_before_the_follower_subscribes_again() -> None:
    metadata = Metadata()
    brokers, _, leader = await led(metadata)
    await append(leader).outcome()
    for follower in (TWO, THREE):
        brokers[follower].sink.stop()
    append(leader, 2)
    await leader.log.wait_stable(3)
    metadata.fence(1)
    brokers[ONE].machine.speed.slowdown = 300
    await until(lambda: leader.log_end == 1)
    (followed,) = brokers[ONE].sink.followed
    brokers[ONE].sink.end()
    calls = brokers[ONE].machine.points.names
    assert not any(call.startswith("truncate ") for call in calls)
    await followed.settle()
    assert any(call.startswith("truncate ") for call in calls)
    assert followed.subscribe(1000).end_offset == 1


# -- a new leader's watermark


async def fresh_leader(metadata: Metadata) -> tuple[dict[BrokerId, TestBroker], TopicId, Replica]:
    """Broker 2 leads anew, has three records, knows that none is committed, and nobody follows yet."""
    brokers, topic, leader = await led(metadata)
    brokers[THREE].sink.stop()
    append(leader, 3)
    await until(lambda: brokers[TWO].replica(topic).log.stable_end == 3)
    brokers[ONE].kill()
    metadata.fence(1)
    return brokers, topic, await brokers[TWO].leads(topic)


@virtual
async def test_a_new_leader_does_not_know_its_watermark_until_it_reaches_the_epochs_start() -> None:
    metadata = Metadata()
    brokers, _, leader = await fresh_leader(metadata)
    assert (leader.high_watermark, leader.watermark_is_known, leader.log_end) == (0, False, 3)
    assert await leader.offsets(OffsetSpec(OffsetKind.EARLIEST)) == FoundOffset(0)
    for kind in (OffsetKind.LATEST, OffsetKind.AT_TIME, OffsetKind.GREATEST_TIME):
        with pytest.raises(ReplicaError) as refused:
            await leader.offsets(OffsetSpec(kind))
        assert refused.value.code == errors_pb2.OFFSET_NOT_AVAILABLE
    assert (await leader.read(1, 1000)).buffers == []
    brokers[THREE].sink.start()
    await until(lambda: leader.watermark_is_known)
    assert await leader.offsets(OffsetSpec(OffsetKind.LATEST)) == FoundOffset(3)


@virtual
async def test_readers_wait_between_watermark_and_end_and_are_woken() -> None:
    metadata = Metadata()
    brokers, _, leader = await fresh_leader(metadata)
    woken: list[int] = []
    for offset in (0, 2, 3):
        leader.when_readable(offset, lambda offset=offset: woken.append(offset))  # type: ignore[misc]
    withdraw = leader.when_readable(1, lambda: woken.append(1))
    withdraw()
    assert woken == []
    brokers[THREE].sink.start()
    await until(lambda: leader.high_watermark == 3)
    assert woken == [0, 2]
    leader.when_readable(1, lambda: woken.append(10))
    assert woken == [0, 2, 10]
    metadata.fence(2)
    assert woken == [0, 2, 10, 3]
    leader.when_readable(3, lambda: woken.append(4))
    assert woken[-1] == 4


@virtual
async def test_times_are_looked_up_below_the_watermark() -> None:
    metadata = Metadata()
    brokers, _, leader = await led(metadata)
    await append(leader, at_ms=1000).outcome()
    await append(leader, at_ms=3000).outcome()
    brokers[TWO].sink.stop()
    append(leader, at_ms=5000)
    assert await leader.offsets(OffsetSpec(OffsetKind.AT_TIME, 2000)) == FoundOffset(1, 3000)
    assert await leader.offsets(OffsetSpec(OffsetKind.AT_TIME, 4000)) == FoundOffset(None)
    assert await leader.offsets(OffsetSpec(OffsetKind.GREATEST_TIME)) == FoundOffset(1, 3000)


@virtual
async def test_reads_end_at_the_watermark_and_out_of_range_is_said() -> None:
    metadata = Metadata()
    brokers, _, leader = await led(metadata)
    await append(leader, 2).outcome()
    brokers[TWO].sink.stop()
    append(leader, 2)
    assert (await leader.read(0, 10_000)).next_offset == 2
    with pytest.raises(OffsetOutOfRange):
        await leader.read(5, 1000)


# -- followers


@virtual
async def test_a_follower_holds_the_leaders_watermark_up_to_its_own_end() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led(metadata)
    follower = brokers[TWO].replica(topic)
    for _ in range(3):
        await append(leader).outcome()
    await until(lambda: follower.high_watermark == 3)
    assert not follower.watermark_is_known


@virtual
async def test_a_follower_that_stopped_leaves_the_isr_and_comes_back() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led(metadata)
    brokers[THREE].sink.stop()
    pending = append(leader, timeout_ms=60_000)
    await until(lambda: metadata.partition(topic).isr == ids(1, 2))
    await pending.outcome()
    brokers[THREE].sink.start()
    await until(lambda: metadata.partition(topic).isr == ids(1, 2, 3))
    assert brokers[THREE].replica(topic).log_end == 1


@virtual
async def test_a_shorter_lag_time_takes_effect_at_once() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led(metadata)
    metadata.configure(None, "replica.lag.time.max.ms", "1000")
    brokers[THREE].sink.stop()
    append(leader)
    began = asyncio.get_running_loop().time()
    await until(lambda: metadata.partition(topic).isr == ids(1, 2))
    assert asyncio.get_running_loop().time() - began < 3


@virtual
async def test_a_replica_from_nothing_gets_everything_and_joins() -> None:
    metadata = Metadata()
    brokers = await start_brokers(metadata, 2)
    topic = metadata.create("orders", place(metadata, 1, 2, isr=[1]), min_insync_replicas="1")
    leader = await brokers[ONE].leads(topic)
    brokers[TWO].sink.stop()
    for _ in range(20):
        append(leader, 2)
    await until(lambda: leader.high_watermark == 40)
    brokers[TWO].sink.start()
    await until(lambda: metadata.partition(topic).isr == ids(1, 2))
    assert await offsets(brokers[TWO].replica(topic).log) == await offsets(leader.log)


@virtual
async def test_who_is_below_the_leaders_start_starts_over_with_its_producers() -> None:
    metadata = Metadata()
    brokers = await start_brokers(metadata, 2)
    topic = metadata.create("orders", place(metadata, 1, 2, isr=[1]), min_insync_replicas="1", segment_bytes="2000")
    leader = await brokers[ONE].leads(topic)
    brokers[TWO].sink.stop()
    append(leader, producer_id=8, producer_epoch=3, base_sequence=0)
    for sequence in range(59):
        append(leader, producer_id=7, producer_epoch=0, base_sequence=sequence)
    await until(lambda: leader.high_watermark == 60)
    bases = [segment.base_offset for segment in leader.log.segments]
    assert len(bases) > 2
    leader.log.delete_prefix(bases[2])
    brokers[TWO].sink.start()
    follower = await brokers[TWO].follows(topic)
    await until(lambda: follower.log_end == 60)
    assert "ResetTo" in brokers[TWO].sink.log
    assert follower.log_start == bases[2]
    assert follower.log.producers.encode() == leader.log.producers.encode()
    await until(lambda: metadata.partition(topic).isr == ids(1, 2))
    metadata.fence(1)
    successor = await brokers[TWO].leads(topic)
    assert append(successor, producer_id=7, producer_epoch=0, base_sequence=58).result().base_offset == 59
    assert append(successor, producer_id=8, producer_epoch=3, base_sequence=0).result().base_offset == 0


@virtual
async def test_a_follower_drops_what_its_leader_dropped() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led(metadata, 2, segment_bytes="1024")
    for _ in range(30):
        await append(leader).outcome()
    start = list(leader.log.segments)[1].base_offset
    leader.log.delete_prefix(start)
    leader.start_moved()
    await until(lambda: brokers[TWO].replica(topic).log_start == start)


@virtual
async def test_a_replica_that_is_no_more_is_told_and_counts_no_more() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led(metadata)
    await until(lambda: brokers[THREE].sink.log == ["ReplicaFeed"])
    brokers[THREE].sink.stop()
    pending = append(leader)
    await until(lambda: brokers[TWO].replica(topic).log_end == 1)
    before = metadata.partition(topic)
    epoch = PartitionEpoch(before.partition_epoch + 1)
    brokers[THREE].view.hold()
    metadata.put(topic, replace(before, replicas=before.replicas[:2], isr=ids(1, 2), partition_epoch=epoch))
    assert [bell.error is not None for bell in brokers[THREE].sink.bells] == [True]
    await pending.outcome()
    brokers[THREE].view.release()
    await until(lambda: not brokers[THREE].has(topic))


# -- what the controller answers


@virtual
async def test_a_refused_expansion_is_undone_and_asked_for_again() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led(metadata)
    view = brokers[ONE].view
    brokers[THREE].sink.stop()
    append(leader)
    await until(lambda: metadata.partition(topic).isr == ids(1, 2))

    async def refuse(alterations: list[Alteration]) -> None:
        raise ControllerError(errors_pb2.UNAVAILABLE, "not now")

    view.alter = refuse
    count = len(view.asked)
    brokers[THREE].sink.start()
    await until(lambda: len(view.asked) > count)
    brokers[THREE].sink.stop()
    await asyncio.sleep(0.1)
    await append(leader).outcome()
    brokers[THREE].sink.start()
    view.alter = None
    await until(lambda: metadata.partition(topic).isr == ids(1, 2, 3))


@pytest.mark.parametrize("code", [errors_pb2.UNAVAILABLE, errors_pb2.CONTROLLER_MOVED])
@virtual
async def test_what_was_not_granted_is_asked_for_again_though_nothing_else_happens(code: errors_pb2.ErrorCode) -> None:
    metadata = Metadata()
    brokers = await start_brokers(metadata, 2)
    view = brokers[ONE].view

    async def refuse(alterations: list[Alteration]) -> None:
        raise ControllerError(code, "not now")

    view.alter = refuse
    topic = metadata.create("orders", place(metadata, 1, 2, isr=[1]), min_insync_replicas="1")
    await brokers[ONE].leads(topic)
    await until(lambda: len(view.asked) > 0)
    await asyncio.sleep(5)
    view.alter = None
    await until(lambda: metadata.partition(topic).isr == ids(1, 2), seconds=1)


@virtual
async def test_who_may_have_joined_counts_while_that_is_not_known() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led(metadata)
    view = brokers[ONE].view
    brokers[THREE].sink.stop()
    append(leader)
    await until(lambda: metadata.partition(topic).isr == ids(1, 2))

    async def lose(alterations: list[Alteration]) -> None:
        raise ControllerError(errors_pb2.CONTROLLER_MOVED, "who knows")

    view.alter = lose
    count = len(view.asked)
    brokers[THREE].sink.start()
    await until(lambda: len(view.asked) > count)
    brokers[THREE].sink.stop()
    pending = append(leader)
    await asyncio.sleep(2)
    assert not pending.done()
    view.alter = None
    await until(pending.done, seconds=20)


@virtual
async def test_a_broker_that_comes_back_is_let_in_as_soon_as_it_may_be() -> None:
    metadata = Metadata()
    brokers = await start_brokers(metadata, 3)
    topic = metadata.create("orders", place(metadata, 1, 2, 3))
    leader = await brokers[ONE].leads(topic)
    metadata.fence(3)
    await append(leader).outcome()
    follower = await brokers[THREE].opened(topic)
    await until(lambda: follower.log_end == 1)
    await asyncio.sleep(1)
    began = asyncio.get_running_loop().time()
    metadata.carry_out(unfence(metadata.image, THREE, brokers[THREE].view.broker_epoch))
    await until(lambda: metadata.partition(topic).isr == ids(1, 2, 3))
    assert asyncio.get_running_loop().time() - began < 0.1


@virtual
async def test_followers_are_watched_only_while_one_is_behind() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led(metadata)
    alarms = leader._world.alarms
    await append(leader).outcome()
    await asyncio.sleep(60)
    assert not alarms._heap, "all have everything: there is nothing to look at"
    brokers[THREE].sink.stop()
    append(leader)
    await until(lambda: metadata.partition(topic).isr == ids(1, 2), seconds=20)
    await asyncio.sleep(60)
    assert not alarms._heap, "who is not in the ISR is not watched"


@virtual
async def test_a_follower_with_nothing_to_say_says_that_it_knows_of_a_change() -> None:
    metadata = Metadata()
    brokers, topic, _ = await led(metadata)
    await asyncio.sleep(1)
    metadata.fence(3)
    metadata.carry_out(unfence(metadata.image, THREE, brokers[THREE].view.broker_epoch))
    await until(lambda: metadata.partition(topic).isr == ids(1, 2, 3))


@virtual
async def test_changes_of_many_partitions_go_in_few_requests() -> None:
    metadata = Metadata()
    brokers = await start_brokers(metadata, 2)
    places = [place(metadata, 1, 2, isr=[1]) for _ in range(20)]
    calls: list[int] = []
    view = brokers[ONE].view

    async def alter(alterations: list[Alteration]) -> object:
        calls.append(len(alterations))
        return view.carry_out(alterations)

    view.alter = alter
    topic = metadata.create("orders", *places, min_insync_replicas="1")
    await until(lambda: all(metadata.partition(topic, number).isr == ids(1, 2) for number in range(20)))
    assert sum(calls) == 20
    assert len(calls) < 12


# -- images that are not ours to act on


@virtual
async def test_nothing_is_done_on_an_image_older_than_the_own_registration() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led(metadata, 1)
    await append(leader).outcome()
    brokers[ONE].kill()
    broker = brokers[ONE]
    broker.begin()
    await broker.open_directories()
    broker.view.hold()
    broker.register()
    broker.run()
    await asyncio.sleep(2)
    # It says that we lead, in an epoch of the process before.
    seen = broker.view.image.partition(topic, 0)
    assert seen is not None
    assert seen.leader == ONE
    assert not broker.has(topic)
    assert list(broker.manager.log_ends()) == []
    broker.view.release()
    await broker.until_ready()
    replica = await broker.leads(topic)
    assert replica.leader_epoch == metadata.partition(topic).leader_epoch


@virtual
async def test_a_later_process_of_the_same_broker_ends_all_roles() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led(metadata, 1)
    former, epoch = brokers[ONE].view, brokers[ONE].view.broker_epoch
    brokers[ONE].register()
    former.broker_epoch = epoch
    assert isinstance(leader.role, Idle)
    metadata.carry_out(unfence(metadata.image, ONE, metadata.image.brokers[ONE].epoch))
    assert metadata.partition(topic).leader == ONE
    assert isinstance(leader.role, Idle)
    assert list(brokers[ONE].manager.log_ends()) == []


# -- unclean elections


@virtual
async def test_the_ends_of_logs_without_a_leader_are_told() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led(metadata)
    for _ in range(3):
        await append(leader).outcome()
    metadata.put(topic, next_leader(metadata.partition(topic), None, isr=()))
    for broker in brokers.values():
        assert [(end.number, end.last_epoch, end.end_offset) for end in broker.manager.log_ends()] == [(0, 0, 3)]


@virtual
async def test_an_end_that_is_not_durable_yet_is_not_told() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led(metadata, 1)
    brokers[ONE].machine.speed.slowdown = 1000
    append(leader)
    metadata.put(topic, next_leader(metadata.partition(topic), None, isr=()))
    assert list(brokers[ONE].manager.log_ends()) == []
    await leader.log.wait_stable(1)
    assert len(list(brokers[ONE].manager.log_ends())) == 1


@virtual
async def test_an_end_that_is_about_to_be_cut_is_not_told() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led(metadata)
    await append(leader).outcome()
    for follower in (TWO, THREE):
        brokers[follower].sink.stop()
    append(leader, 2)
    await leader.log.wait_stable(3)
    metadata.fence(1)
    brokers[ONE].machine.speed.slowdown = 200
    await until(lambda: leader.log.is_exclusive)
    metadata.put(topic, next_leader(metadata.partition(topic), None, isr=()))
    while not leader.operations.is_idle:
        assert list(brokers[ONE].manager.log_ends()) == []
        await asyncio.sleep(0.001)
    assert len(list(brokers[ONE].manager.log_ends())) == 1


@virtual
async def test_the_end_of_a_log_in_another_directory_than_the_metadatas_is_not_told() -> None:
    """It may be one that was only just begun there."""
    metadata = Metadata()
    peers: dict[BrokerId, TestBroker] = {}
    broker = await TestBroker(1, metadata, peers, disks=2).start()
    topic = metadata.create("orders", place(metadata, 1))
    await broker.leads(topic)
    await broker.stop()
    broker.paths = broker.paths[1:]
    await broker.start()
    await broker.opened(topic)
    assert metadata.partition(topic).leader is None
    assert list(broker.manager.log_ends()) == []


@virtual
async def test_after_an_unclean_election_committed_records_are_cut_and_the_watermark_goes_back_first() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led(metadata, 2, min_insync_replicas="1")
    await append(leader).outcome()
    brokers[TWO].sink.stop()
    append(leader, 3, timeout_ms=60_000)
    await until(lambda: metadata.partition(topic).isr == ids(1), seconds=60)
    await until(lambda: leader.high_watermark == 4)
    broker = brokers[ONE]
    await asyncio.sleep(6)
    assert list((await broker.directories[0].read_high_watermarks()).values()) == [4]
    metadata.fence(1)
    ends = {TWO: LogEnd(brokers[TWO].view.broker_epoch, LeaderEpoch(0), 1)}
    metadata.carry_out(elect_unclean_leaders(metadata.image, [(topic, 0)], {(topic, 0): ends}))
    successor = await brokers[TWO].leads(topic)
    written = broker.machine.points.names
    before = len(written)
    brokers[TWO].sink.start()
    await until(lambda: any(call.startswith("truncate ") for call in written[before:]))
    calls = written[before:]
    assert list((await broker.directories[0].read_high_watermarks()).values()) == [1]
    cuts = [at for at, call in enumerate(calls) if call.startswith("truncate ")]
    assert calls.index("rename high-watermarks.tmp high-watermarks") < cuts[0]
    assert leader.log_end == 1
    await append(successor, acks=Acks.LEADER).outcome()
    assert not isinstance(leader.role, Failed)
