"""Logs that are damaged: reported first, then made anew where others have it all."""

import asyncio
from dataclasses import replace

import pytest
from support.led_replicas import ONE, THREE, TWO, led_with_records
from support.metadata_images import ids
from support.replica_brokers import Metadata, TestBroker, append, until
from support.virtual_log import ROOT, offsets, virtual

from lograft.broker.replica.interfaces import Acks, OffsetKind, OffsetSpec
from lograft.broker.replica.replica import Failed, Replica
from lograft.metadata.decisions.brokers.fencing import unfence
from lograft.metadata.decisions.partitions.elect_leaders import elect_unclean_leaders
from lograft.metadata.decisions.partitions.log_ends import LogEnd
from lograft.metadata.image.partition import LeaderEpoch, PartitionEpoch, TopicId
from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ControllerError, ReplicaError
from lograft.storage.errors import BadCrc, CorruptLog
from lograft.storage.inspect.batch_check import check_batches

FIRST = "00000000000000000000.log"
LENGTH, OFFSET, EPOCH, PAYLOAD = 8, 7, 15, 100  # bytes of a batch; its CRC covers the last alone


def damage(broker: TestBroker, replica: Replica, byte: int = LENGTH) -> None:
    """The first batch of the log is not what it was, and memory does not have it any more."""
    replica.log.tail.clear()
    broker.machine.files.flip_bit(replica.log.segments[0].path, byte, 1)


@pytest.mark.parametrize("byte", [LENGTH, OFFSET, EPOCH, PAYLOAD])
@virtual
async def test_a_leader_that_finds_its_log_damaged_serves_no_more_and_another_leads(byte: int) -> None:
    metadata = Metadata()
    brokers, topic, leader = await led_with_records(metadata)
    damage(brokers[ONE], leader, byte)
    pending = append(leader)
    with pytest.raises(CorruptLog):
        await leader.read(0, 1000)
    assert isinstance(leader.role, Failed)
    with pytest.raises(ReplicaError) as unknown:
        pending.result()
    assert unknown.value.code == errors_pb2.STORAGE_FAILED
    assert not brokers[ONE].has(topic)
    successor = await brokers[TWO].leads(topic)
    assert brokers[ONE].view.reports == [([], [(topic, 0)])]
    await append(successor).outcome()
    await until(lambda: ONE in metadata.partition(topic).isr)
    again = brokers[ONE].replica(topic)
    assert again is not leader
    assert await offsets(again.log) == await offsets(successor.log)


@pytest.mark.parametrize("byte", [LENGTH, OFFSET, EPOCH, PAYLOAD])
@virtual
async def test_damage_found_while_a_follower_is_fed_is_found_all_the_same(byte: int) -> None:
    metadata = Metadata()
    brokers, topic, leader = await led_with_records(metadata)
    brokers[THREE].kill()
    metadata.fence(3)
    brokers[THREE].machine.files.points.restart()
    for name in brokers[THREE].machine.files.list_directory(f"{ROOT}/d0"):
        if "." in name:
            _remove_tree(brokers[THREE], f"{ROOT}/d0/{name}")
    damage(brokers[ONE], leader, byte)
    await brokers[THREE].start()
    await until(lambda: isinstance(leader.role, Failed))
    await brokers[TWO].leads(topic)
    await until(lambda: metadata.partition(topic).isr == ids(1, 2, 3))


@virtual
async def test_the_last_copy_is_served_as_it_is() -> None:
    """Who reads finds out what is damaged, and has the rest."""
    metadata = Metadata()
    brokers, _, leader = await led_with_records(metadata, count=1)
    damage(brokers[ONE], leader, PAYLOAD)
    batches = await leader.read(0, 1000)
    with pytest.raises(BadCrc):
        check_batches(batches.buffers, leader.log.epochs)
    await append(leader).outcome()


def _remove_tree(broker: TestBroker, path: str) -> None:
    for name in broker.machine.files.list_directory(path):
        broker.machine.files.remove(f"{path}/{name}")
    broker.machine.files.remove_directory(path)


@virtual
async def test_damage_found_by_a_search_counts_too() -> None:
    metadata = Metadata()
    brokers, _, leader = await led_with_records(metadata)
    damage(brokers[ONE], leader)
    with pytest.raises(CorruptLog):
        await leader.offsets(OffsetSpec(OffsetKind.AT_TIME, 0))
    assert isinstance(leader.role, Failed)


@virtual
async def test_a_log_found_damaged_at_the_start_is_reported_and_made_anew() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led_with_records(metadata)
    path = f"{brokers[THREE].replica(topic).log.directory}/checkpoint"
    await brokers[THREE].stop()
    brokers[THREE].machine.files.flip_bit(path, 3, 1)
    await brokers[THREE].start()
    assert brokers[THREE].view.reports == [([], [(topic, 0)])]
    await until(lambda: metadata.partition(topic).isr == ids(1, 2, 3))
    assert await offsets(brokers[THREE].replica(topic).log) == await offsets(leader.log)


@virtual
async def test_a_log_whose_files_were_taken_away_is_not_mistaken_for_a_new_one() -> None:
    """It would be led, empty, and those that have everything would follow it."""
    metadata = Metadata()
    brokers, topic, leader = await led_with_records(metadata, 2)
    path = leader.log.directory
    for broker_id in (TWO, ONE):
        brokers[broker_id].kill()
        metadata.fence(broker_id)
    assert [replica.broker_id for replica in metadata.partition(topic).elr] == [ONE, TWO]
    _take_away(brokers[ONE], path)
    await brokers[ONE].start()
    await until(lambda: brokers[ONE].view.reports == [([], [(topic, 0)])])
    brokers[ONE].kill()
    await brokers[ONE].start()
    await until(lambda: brokers[ONE].view.reports == [([], [(topic, 0)])], "it is not forgotten")
    await until(lambda: metadata.partition(topic).leader is None)
    await brokers[TWO].start()
    leader = await brokers[TWO].leads(topic)
    await until(lambda: metadata.partition(topic).isr == ids(1, 2))
    assert await offsets(brokers[ONE].replica(topic).log) == await offsets(leader.log) == list(range(20))
    brokers[ONE].kill()
    await brokers[ONE].start()
    await until(lambda: metadata.partition(topic).isr == ids(1, 2))
    assert brokers[ONE].view.reports == []


@virtual
async def test_a_last_copy_that_was_taken_away_is_made_anew_once_it_is_given_up() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led_with_records(metadata, 1)
    brokers[ONE].kill()
    _take_away(brokers[ONE], leader.log.directory)
    await brokers[ONE].start()
    await until(lambda: metadata.partition(topic).leader is None)
    await _elect_uncleanly(metadata, brokers[ONE], topic)
    again = await brokers[ONE].leads(topic)
    assert (await append(again).outcome()).base_offset == 0


def _take_away(broker: TestBroker, path: str) -> None:
    files = broker.machine.files
    for name in files.list_directory(path):
        files.remove(f"{path}/{name}")
    files.remove_directory(path)


@virtual
async def test_nothing_is_discarded_before_the_report_is_committed_and_seen() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led_with_records(metadata)
    view = brokers[ONE].view

    async def refuse() -> None:
        raise ControllerError(errors_pb2.CONTROLLER_MOVED, "no quorum")

    view.report = refuse
    damage(brokers[ONE], leader)
    with pytest.raises(CorruptLog):
        await leader.read(0, 1000)
    await asyncio.sleep(20)
    assert len(view.reports) > 3
    assert _has_records(brokers[ONE], leader)
    view.report = None
    view.hold()
    await until(lambda: ONE not in metadata.partition(topic).isr)
    await asyncio.sleep(5)
    assert not brokers[ONE].has(topic)
    assert _has_records(brokers[ONE], leader)
    view.release()
    await until(lambda: metadata.partition(topic).isr == ids(1, 2, 3))


def _has_records(broker: TestBroker, replica: Replica) -> bool:
    """Is what the replica's log once had still there? One that was made anew, and not fed, has nothing."""
    path = f"{replica.log.directory}/00000000000000000000.log"
    return path in _all_files(broker) and broker.machine.files.size(path) > 0


def _all_files(broker: TestBroker) -> list[str]:
    files = broker.machine.files
    return [
        f"{ROOT}/d0/{name}/{inner}"
        for name in files.list_directory(f"{ROOT}/d0")
        if "." in name
        for inner in files.list_directory(f"{ROOT}/d0/{name}")
    ]


@virtual
async def test_a_damaged_replica_that_is_not_in_sync_is_reported_before_it_is_discarded_too() -> None:
    metadata = Metadata()
    brokers, topic, _ = await led_with_records(metadata)
    brokers[THREE].sink.stop()
    metadata.fence(3)
    metadata.carry_out(unfence(metadata.image, THREE, brokers[THREE].view.broker_epoch))
    follower, view = brokers[THREE].replica(topic), brokers[THREE].view

    async def refuse() -> None:
        raise ControllerError(errors_pb2.CONTROLLER_MOVED, "no quorum")

    view.report = refuse
    epoch = metadata.partition(topic).partition_epoch
    follower.found_corrupt(CorruptLog(follower.log.directory, 0, "a test says so"))
    metadata.configure(topic, "retention.ms", "-1")
    await asyncio.sleep(5)
    assert _has_records(brokers[THREE], follower)
    view.hold()
    view.report = None
    await until(lambda: metadata.partition(topic).partition_epoch > epoch)
    await asyncio.sleep(5)
    assert _has_records(brokers[THREE], follower)
    view.release()
    brokers[THREE].sink.start()
    await until(lambda: metadata.partition(topic).isr == ids(1, 2, 3))


@virtual
async def test_a_damaged_last_copy_says_what_is_left_of_it_and_an_unclean_election_keeps_that() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led_with_records(metadata, 1)
    damage(brokers[ONE], leader)
    with pytest.raises(CorruptLog):
        await leader.read(0, 1000)
    await until(lambda: metadata.partition(topic).leader is None)
    await asyncio.sleep(5)
    assert _has_records(brokers[ONE], leader)
    (end,) = brokers[ONE].manager.log_ends()
    assert (end.last_epoch, end.end_offset, end.is_damaged) == (0, 20, True)
    kept = leader.log.segments[1].base_offset
    await _elect_uncleanly(metadata, brokers[ONE], topic)
    again = await brokers[ONE].leads(topic)
    assert (again.log_start, again.log_end) == (kept, 20)
    assert await offsets(again.log) == list(range(kept, 20))
    assert (await append(again).outcome()).base_offset == 20
    assert [path.rpartition("/")[2] for path in _all_files(brokers[ONE]) if "-stray." in path] == [FIRST]


async def _elect_uncleanly(metadata: Metadata, broker: TestBroker, topic: TopicId) -> None:
    await until(lambda: len(list(broker.manager.log_ends())) == 1)
    (end,) = broker.manager.log_ends()
    ends = {ONE: LogEnd(broker.view.broker_epoch, end.last_epoch, end.end_offset)}
    metadata.carry_out(elect_unclean_leaders(metadata.image, None, {(topic, 0): ends}))


@virtual
async def test_a_copy_damaged_after_its_unclean_election_leads_no_more_in_that_epoch() -> None:
    """What it had acknowledged in that epoch is gone: offsets must not be given twice in it."""
    metadata = Metadata()
    brokers, topic, leader = await led_with_records(metadata, 1)
    damage(brokers[ONE], leader)
    with pytest.raises(CorruptLog):
        await leader.read(0, 1000)
    await until(lambda: metadata.partition(topic).leader is None)
    await _elect_uncleanly(metadata, brokers[ONE], topic)
    elected = await brokers[ONE].leads(topic)
    await append(elected).outcome()
    epoch = metadata.partition(topic).leader_epoch
    damage(brokers[ONE], elected)
    with pytest.raises(CorruptLog):
        await elected.read(elected.log_start, 1000)
    await until(lambda: metadata.partition(topic).leader is None)
    await asyncio.sleep(5)
    assert not brokers[ONE].has(topic)
    await _elect_uncleanly(metadata, brokers[ONE], topic)
    again = await brokers[ONE].leads(topic)
    assert metadata.partition(topic).leader_epoch > epoch
    assert (await append(again).outcome()).base_offset == 21


@virtual
async def test_a_damaged_replica_that_was_let_in_again_is_reported_again() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led_with_records(metadata)
    follower = brokers[THREE].replica(topic)
    before = metadata.partition(topic)
    view = brokers[THREE].view
    follower.found_corrupt(CorruptLog(follower.log.directory, 0, "a test says so"))
    await until(lambda: len(view.reports) == 1)
    assert not brokers[THREE].has(topic)
    view.hold()
    await until(lambda: THREE not in metadata.partition(topic).isr)
    epoch = PartitionEpoch(metadata.partition(topic).partition_epoch + 1)
    metadata.put(topic, replace(before, partition_epoch=epoch))
    view.release()
    await until(lambda: len(view.reports) == 2)
    again = await brokers[THREE].follows(topic)
    assert again is not follower
    await until(lambda: metadata.partition(topic).isr == ids(1, 2, 3))
    assert leader.high_watermark == 20


@virtual
async def test_a_damaged_replica_that_is_to_lead_is_not_made_anew_for_that() -> None:
    """It was let in again by what it had before, and then elected: what it is to lead with is on others."""
    metadata = Metadata()
    brokers, topic, _ = await led_with_records(metadata)
    follower, view = brokers[THREE].replica(topic), brokers[THREE].view
    before = metadata.partition(topic)
    for follower_id in (ONE, TWO):
        brokers[follower_id].view.hold()
    view.hold()
    follower.found_corrupt(CorruptLog(follower.log.directory, 0, "a test says so"))
    await until(lambda: THREE not in metadata.partition(topic).isr)
    now = metadata.partition(topic)
    epoch, leader_epoch = PartitionEpoch(now.partition_epoch + 1), LeaderEpoch(now.leader_epoch + 1)
    metadata.put(topic, replace(before, leader=THREE, leader_epoch=leader_epoch, partition_epoch=epoch))
    reported = asyncio.Event()
    view.report = reported.wait
    view.release()
    await until(lambda: len(view.reports) == 2)
    await asyncio.sleep(5)
    assert not brokers[THREE].has(topic)
    assert _has_records(brokers[THREE], follower)
    for follower_id in (ONE, TWO):
        brokers[follower_id].view.release()
    reported.set()
    again = await brokers[THREE].follows(topic)
    await until(lambda: again.log_end == 20 and metadata.partition(topic).isr == ids(1, 2, 3))


# -- files that are missing


def remove_segment(broker: TestBroker, replica: Replica, place: int) -> None:
    """All files of it, while the broker is down."""
    files, log = broker.machine.files, replica.log
    stem = log.segments[place].path.removesuffix(".log").rpartition("/")[2]
    for name in files.list_directory(log.directory):
        if name.startswith(stem):
            files.remove(f"{log.directory}/{name}")


@pytest.mark.parametrize("place", [0, 1, -1], ids=["first", "middle", "last"])
@virtual
async def test_segments_that_are_missing_on_the_next_leader_are_deleted_nowhere_else(place: int) -> None:
    """It was the only one in sync, and is the preferred leader: the others have all but the last record."""
    metadata = Metadata()
    brokers, topic, leader = await led_with_records(metadata)
    await brokers[ONE].stop()
    metadata.fence(1)
    remove_segment(brokers[ONE], leader, place)
    await brokers[ONE].start()
    await until(lambda: brokers[ONE].view.reports == [([], [(topic, 0)])])
    successor = await brokers[TWO].leads(topic)
    await until(lambda: metadata.partition(topic).isr == ids(1, 2, 3))
    for broker in brokers.values():
        replica = broker.replica(topic)
        assert (replica.log_start, await offsets(replica.log)) == (0, await offsets(successor.log))
        assert replica.log_end >= 20


@pytest.mark.parametrize(
    ("place", "kept"), [(0, range(1, 4)), (2, range(3, 4)), (-1, range(3))], ids=["first", "middle", "last"]
)
@virtual
async def test_the_last_copy_keeps_what_follows_its_last_hole(place: int, kept: range) -> None:
    """And nobody who has more is told to delete it."""
    metadata = Metadata()
    brokers, topic, leader = await led_with_records(metadata, 2)
    bases = [segment.base_offset for segment in leader.log.segments]
    ends = [*bases[1:], 20]
    assert len(bases) == 4
    await brokers[TWO].stop()
    metadata.fence(2)
    await brokers[ONE].stop()
    metadata.fence(1)
    remove_segment(brokers[ONE], leader, place)
    await brokers[ONE].start()
    await _elect_uncleanly(metadata, brokers[ONE], topic)
    again = await brokers[ONE].leads(topic)
    assert (again.log_start, again.log_end) == (bases[kept[0]], ends[kept[-1]])
    assert await offsets(again.log) == list(range(bases[kept[0]], ends[kept[-1]]))
    await append(again, acks=Acks.LEADER).outcome()
    await brokers[TWO].start()
    await until(lambda: metadata.partition(topic).isr == ids(1, 2))
    other = brokers[TWO].replica(topic)
    await until(lambda: other.log_end == again.log_end)
    assert await offsets(other.log) == list(range(again.log_end))
