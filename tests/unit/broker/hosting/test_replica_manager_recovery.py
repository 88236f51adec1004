"""A broker that starts again: what it had, it has; what it was told, it does."""

import asyncio
from dataclasses import replace
from uuid import UUID

import pytest
from support.metadata_images import ids, topic_id
from support.replica_brokers import Metadata, TestBroker, append, place, start_brokers, until
from support.virtual_log import ROOT, offsets, virtual

from lograft.broker.hosting.log_directories import QUARANTINE_MS
from lograft.broker.replica.follower_role import FollowerRole
from lograft.broker.replica.replica import Replica
from lograft.metadata.decisions.topics.delete_topic import delete_topic
from lograft.metadata.image.partition import BrokerId, PartitionEpoch, TopicId
from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ReplicaError
from lograft.storage.files.file_names import PartitionName
from lograft.storage.log.log_config import FlushMode

ONE, TWO, THREE = ids(1, 2, 3)


async def alone(metadata: Metadata, partitions: int = 1, **config: str) -> tuple[TestBroker, TopicId]:
    """One broker with a topic of its own."""
    broker = (await start_brokers(metadata, 1))[ONE]
    topic = metadata.create("orders", *(place(metadata, 1) for _ in range(partitions)), **config)
    for number in range(partitions):
        await broker.leads(topic, number)
    return broker, topic


def names_in(broker: TestBroker, disk: int = 0) -> list[str]:
    """What is in a data directory, but for its own small files."""
    return [name for name in broker.machine.files.list_directory(broker.paths[disk]) if "." in name]


# -- starting again


@virtual
async def test_after_a_stop_in_good_order_everything_is_there() -> None:
    metadata = Metadata()
    broker, topic = await alone(metadata, 3)
    for number in range(3):
        await append(broker.replica(topic, number), number + 1).outcome()
    await broker.stop()
    await broker.start()
    for number in range(3):
        replica = await broker.leads(topic, number)
        assert (replica.log_end, replica.high_watermark) == (number + 1, number + 1)
    assert broker.directories[0].clean_epoch is not None


@pytest.mark.parametrize("power_fails", [False, True])
@virtual
async def test_after_a_kill_everything_acknowledged_is_there(power_fails: bool) -> None:
    metadata = Metadata()
    broker, topic = await alone(metadata)
    replica = broker.replica(topic)
    for _ in range(10):
        await append(replica).outcome()
    broker.kill(power_fails=power_fails)
    await broker.start()
    replica = await broker.leads(topic)
    assert replica.log_end >= 10
    await until(lambda: replica.watermark_is_known)
    assert replica.high_watermark == replica.log_end


@virtual
async def test_the_watermark_is_noted_now_and_then_and_found_again() -> None:
    metadata = Metadata()
    brokers = await start_brokers(metadata, 3)
    topic = metadata.create("orders", place(metadata, 1, 2, 3))
    leader = await brokers[ONE].leads(topic)
    for _ in range(5):
        await append(leader).outcome()
    await until(lambda: brokers[TWO].replica(topic).high_watermark == 5)
    await asyncio.sleep(6)
    for _ in range(3):
        brokers[THREE].sink.stop()
        append(leader)
    for broker_id in (TWO, THREE, ONE):
        brokers[broker_id].kill()
    again = await brokers[TWO].start(is_ready=False)
    await again.manager.until_recovered()
    assert again.replica(topic).high_watermark == 5
    assert again.replica(topic).log_end >= 5


@virtual
async def test_the_watermark_is_noted_before_the_broker_stops() -> None:
    metadata = Metadata()
    broker, topic = await alone(metadata)
    await append(broker.replica(topic), 3).outcome()
    await broker.stop()
    broker.begin()
    await broker.open_directories()
    assert list((await broker.directories[0].read_high_watermarks()).values()) == [3]


@virtual
async def test_the_watermark_of_a_log_that_cannot_be_opened_is_kept() -> None:
    metadata = Metadata()
    broker, topic = await alone(metadata, 2)
    for number in (0, 1):
        await append(broker.replica(topic, number), 3).outcome()
    path = f"{broker.replica(topic, 1).log.directory}/checkpoint"
    await broker.stop()
    broker.machine.files.flip_bit(path, 3, 1)
    await broker.start()
    await append(await broker.leads(topic, 0)).outcome()
    await asyncio.sleep(6)
    assert not broker.has(topic, 1)
    noted = await broker.directories[0].read_high_watermarks()
    assert {name.partition: watermark for name, watermark in noted.items()} == {0: 4, 1: 3}


@virtual
async def test_a_watermark_beyond_what_a_crash_left_is_not_believed_nor_kept() -> None:
    for seed in range(20):
        metadata = Metadata()
        broker = await TestBroker(1, metadata, {}, seed=seed).start()
        topic = metadata.create("orders", place(metadata, 1), flush_mode="os")
        await append(await broker.leads(topic), 5).outcome()
        await asyncio.sleep(6)
        assert list((await broker.directories[0].read_high_watermarks()).values()) == [5]
        broker.kill(power_fails=True)
        await broker.start(is_ready=False)
        await broker.manager.until_recovered()
        replica = broker.replica(topic)
        assert replica.high_watermark <= replica.log_end
        if replica.log_end < 5:
            assert list((await broker.directories[0].read_high_watermarks()).values()) == [replica.log_end]
            return
    pytest.fail("no power failure took anything")


@virtual
async def test_many_logs_are_opened_before_the_broker_is_ready() -> None:
    metadata = Metadata()
    broker, topic = await alone(metadata, 30)
    broker.kill()
    await broker.start(is_ready=False)
    assert not broker.has(topic, 29)
    with pytest.raises(ReplicaError) as not_yet:
        broker.replica(topic, 29)
    assert not_yet.value.code == errors_pb2.LEADER_NOT_AVAILABLE or not_yet.value.code == errors_pb2.UNAVAILABLE
    await broker.manager.until_recovered()
    assert all(broker.has(topic, number) for number in range(30))


@virtual
async def test_a_follower_goes_on_where_it_was() -> None:
    metadata = Metadata()
    brokers = await start_brokers(metadata, 3)
    topic = metadata.create("orders", place(metadata, 1, 2, 3))
    leader = await brokers[ONE].leads(topic)
    await append(leader, 3).outcome()
    brokers[THREE].kill()
    metadata.fence(3)
    await append(leader, 3).outcome()
    await brokers[THREE].start()
    await until(lambda: metadata.partition(topic).isr == ids(1, 2, 3))
    assert await offsets(brokers[THREE].replica(topic).log) == [0, 3]
    assert "ResetTo" not in brokers[THREE].sink.log


# -- what is asked for


@virtual
async def test_unknown_partitions_are_told_apart() -> None:
    metadata = Metadata()
    brokers = await start_brokers(metadata, 2)
    topic = metadata.create("orders", place(metadata, 2))
    await brokers[TWO].leads(topic)
    cases = [
        ((topic_id(99), 0), errors_pb2.UNKNOWN_TOPIC_ID, None),
        ((topic, 5), errors_pb2.UNKNOWN_PARTITION, None),
        ((topic, 0), errors_pb2.NOT_LEADER, 2),
    ]
    for key, code, leader in cases:
        with pytest.raises(ReplicaError) as refused:
            brokers[ONE].manager.get(*key)
        assert (refused.value.code, refused.value.leader_id) == (code, leader)


@virtual
async def test_a_setting_changes_at_once() -> None:
    metadata = Metadata()
    broker, topic = await alone(metadata, 2)
    metadata.configure(topic, "max.message.bytes", "5000")
    await until(lambda: all(broker.replica(topic, number).log_config.max_message_bytes == 5000 for number in (0, 1)))
    metadata.configure(None, "flush.mode", "os")
    await until(lambda: broker.replica(topic, 1).log_config.flush_mode is FlushMode.OS)
    assert broker.replica(topic).log_config.max_message_bytes == 5000
    pending = append(broker.replica(topic, 1))
    metadata.configure(None, "flush.mode", None)
    await until(lambda: broker.replica(topic, 1).log_config.flush_mode is FlushMode.FSYNC)
    await pending.outcome()
    assert broker.replica(topic, 1).log.synced_end == 1


@virtual
async def test_a_setting_made_before_a_log_is_open_is_met() -> None:
    metadata = Metadata()
    broker = (await start_brokers(metadata, 1))[ONE]
    topic = metadata.create("orders", place(metadata, 1))
    metadata.configure(topic, "max.message.bytes", "4000")
    replica = await broker.leads(topic)
    await until(lambda: replica.log_config.max_message_bytes == 4000)


# -- what goes


@virtual
async def test_a_deleted_topic_goes_with_its_files_and_who_waits_is_told() -> None:
    metadata = Metadata()
    broker, topic = await alone(metadata, 2)
    replica = broker.replica(topic)
    broker.machine.speed.slowdown = 50
    pending = append(replica)
    woken: list[int] = []
    replica.when_readable(0, lambda: woken.append(1))
    metadata.carry_out(delete_topic(metadata.image, topic))
    with pytest.raises(ReplicaError) as lost:
        pending.result()
    assert lost.value.outcome_unknown
    assert woken == [1]
    with pytest.raises(ReplicaError) as unknown:
        broker.replica(topic)
    assert unknown.value.code == errors_pb2.UNKNOWN_TOPIC_ID
    await until(lambda: names_in(broker) == [])
    assert not [path for path in broker.machine.open_files() if path.endswith(".log")]


@virtual
async def test_a_topic_deleted_while_a_log_is_being_opened_leaves_nothing() -> None:
    metadata = Metadata()
    broker = (await start_brokers(metadata, 1))[ONE]
    broker.machine.speed.slowdown = 20
    topic = metadata.create("orders", *(place(metadata, 1) for _ in range(12)))
    await asyncio.sleep(0.01)
    metadata.carry_out(delete_topic(metadata.image, topic))
    await asyncio.sleep(10)
    assert names_in(broker) == []


@pytest.mark.parametrize("delay_ms", range(0, 24, 2))
@virtual
async def test_a_removal_that_a_crash_interrupted_is_finished_at_the_next_start(delay_ms: int) -> None:
    metadata = Metadata()
    broker, topic = await alone(metadata, 3)
    metadata.carry_out(delete_topic(metadata.image, topic))
    await asyncio.sleep(delay_ms / 1000)
    broker.kill(power_fails=delay_ms % 4 == 0)
    await broker.start()
    await until(lambda: names_in(broker) == [])


@virtual
async def test_a_topic_made_anew_has_nothing_of_the_old_one() -> None:
    metadata = Metadata()
    broker, topic = await alone(metadata)
    await append(broker.replica(topic), 3).outcome()
    metadata.carry_out(delete_topic(metadata.image, topic))
    again = metadata.create("orders", place(metadata, 1))
    replica = await broker.leads(again)
    assert replica.log_end == 0


@virtual
async def test_a_partition_that_moves_away_and_back_starts_empty() -> None:
    metadata = Metadata()
    brokers = await start_brokers(metadata, 3)
    topic = metadata.create("orders", place(metadata, 1, 2, 3))
    leader = await brokers[ONE].leads(topic)
    await append(leader, 3).outcome()
    before = metadata.partition(topic)
    epoch = PartitionEpoch(before.partition_epoch + 1)
    metadata.put(topic, replace(before, replicas=before.replicas[:2], isr=ids(1, 2), partition_epoch=epoch))
    await until(lambda: names_in(brokers[THREE]) == [])
    back = PartitionEpoch(metadata.partition(topic).partition_epoch + 1)
    metadata.put(topic, replace(before, isr=ids(1, 2), partition_epoch=back))
    await until(lambda: metadata.partition(topic).isr == ids(1, 2, 3))
    assert brokers[THREE].replica(topic).log_end == 3


@pytest.mark.parametrize("delay_ms", range(0, 24, 2))
@virtual
async def test_a_log_that_went_by_our_own_hand_is_not_missed_after_a_crash(delay_ms: int) -> None:
    """It is in the file of watermarks, which is written now and then; and the partition comes back."""
    metadata = Metadata()
    brokers = await start_brokers(metadata, 3)
    topic = metadata.create("orders", place(metadata, 1, 2, 3))
    await append(await brokers[ONE].leads(topic), 3).outcome()
    three = brokers[THREE]
    await asyncio.sleep(10)
    assert any(directory.watermarks for directory in three.manager._directories.healthy)
    before = metadata.partition(topic)
    epoch = PartitionEpoch(before.partition_epoch + 1)
    metadata.put(topic, replace(before, replicas=before.replicas[:2], isr=ids(1, 2), partition_epoch=epoch))
    await asyncio.sleep(delay_ms / 1000)
    three.kill(power_fails=delay_ms % 4 == 0)
    for _ in range(2):  # the traces of the removal may go with the first start
        await three.start()
        await asyncio.sleep(0.1)
        three.kill(power_fails=False)
    back = PartitionEpoch(metadata.partition(topic).partition_epoch + 1)
    metadata.put(topic, replace(before, isr=ids(1, 2), partition_epoch=back))
    await three.start()
    await until(lambda: metadata.partition(topic).isr == ids(1, 2, 3))
    assert three.view.reports == []


@virtual
async def test_a_partition_that_comes_back_before_its_log_went_is_served_as_before() -> None:
    metadata = Metadata()
    brokers = await start_brokers(metadata, 3)
    topic = metadata.create("orders", place(metadata, 1, 2, 3))
    leader = await brokers[ONE].leads(topic)
    await append(leader, 3).outcome()
    before, former = metadata.partition(topic), brokers[THREE].replica(topic)
    epoch = PartitionEpoch(before.partition_epoch + 1)
    metadata.put(topic, replace(before, replicas=before.replicas[:2], isr=ids(1, 2), partition_epoch=epoch))
    assert not brokers[THREE].has(topic)
    back = PartitionEpoch(metadata.partition(topic).partition_epoch + 1)
    metadata.put(topic, replace(before, isr=ids(1, 2), partition_epoch=back))
    assert brokers[THREE].replica(topic) is former
    await until(lambda: metadata.partition(topic).isr == ids(1, 2, 3))
    assert brokers[THREE].replica(topic) is former


@pytest.mark.parametrize("delay_ms", [1, 10, 50, 200, 500])
@virtual
async def test_a_partition_that_comes_back_while_its_log_is_closed_starts_empty_too(delay_ms: int) -> None:
    metadata = Metadata()
    brokers = await start_brokers(metadata, 3)
    topic = metadata.create("orders", place(metadata, 1, 2, 3))
    leader = await brokers[ONE].leads(topic)
    await append(leader, 3).outcome()
    before, former = metadata.partition(topic), brokers[THREE].replica(topic)
    brokers[THREE].machine.speed.slowdown = 100
    epoch = PartitionEpoch(before.partition_epoch + 1)
    metadata.put(topic, replace(before, replicas=before.replicas[:2], isr=ids(1, 2), partition_epoch=epoch))
    await asyncio.sleep(delay_ms / 1000)
    back = PartitionEpoch(metadata.partition(topic).partition_epoch + 1)
    metadata.put(topic, replace(before, isr=ids(1, 2), partition_epoch=back))
    assert not brokers[THREE].has(topic)
    await until(lambda: metadata.partition(topic).isr == ids(1, 2, 3))
    assert brokers[THREE].replica(topic) is not former
    assert brokers[THREE].replica(topic).log_end == 3


@virtual
async def test_what_was_deleted_while_the_broker_was_away_is_removed() -> None:
    metadata = Metadata()
    broker, topic = await alone(metadata)
    kept = metadata.create("kept", place(metadata, 1))
    await broker.leads(kept)
    await broker.stop()
    metadata.carry_out(delete_topic(metadata.image, topic))
    await broker.start()
    assert [name.partition(".")[0] for name in names_in(broker)] == ["kept-0"]
    await broker.leads(kept)


@virtual
async def test_what_the_metadata_do_not_know_is_put_aside_for_a_week() -> None:
    metadata = Metadata()
    broker, _ = await alone(metadata)
    await broker.stop()
    stray = PartitionName("lost", 4, UUID(int=77))
    broker.machine.files.make_directory(f"{ROOT}/d0/{stray}")
    broker.machine.files.create(f"{ROOT}/d0/{stray}/00000000000000000000.log").close()
    await broker.start()
    (aside,) = [name for name in names_in(broker) if name.startswith("lost")]
    assert aside.startswith(f"{stray}-stray.")
    assert broker.machine.files.list_directory(f"{ROOT}/d0/{aside}") == ["00000000000000000000.log"]
    await broker.stop()
    await asyncio.sleep(QUARANTINE_MS / 2000)
    await broker.start()
    assert aside in names_in(broker)
    await broker.stop()
    await asyncio.sleep(QUARANTINE_MS / 2000)
    await broker.start()
    assert aside not in names_in(broker)


@virtual
async def test_what_was_left_half_removed_goes_at_the_next_start() -> None:
    metadata = Metadata()
    broker, _ = await alone(metadata)
    await broker.stop()
    half = f"{PartitionName('old', 0, UUID(int=5))}-removed.123"
    broker.machine.files.make_directory(f"{ROOT}/d0/{half}")
    broker.machine.files.create(f"{ROOT}/d0/{half}/checkpoint").close()
    await broker.start()
    assert half not in names_in(broker)


@virtual
async def test_a_topic_that_is_called_like_something_removed_is_left_alone() -> None:
    metadata = Metadata()
    broker = (await start_brokers(metadata, 1))[ONE]
    old = PartitionName("old", 0, UUID(int=5))
    topics = [metadata.create(f"{old}-{kind}.1", place(metadata, 1)) for kind in ("removed", "stray")]
    for topic in topics:
        await append(await broker.leads(topic), 3).outcome()
    await broker.stop()
    await broker.start()
    for topic in topics:
        assert (await broker.leads(topic)).log_end == 3


# -- directories


@virtual
async def test_a_log_is_where_the_metadata_want_it() -> None:
    metadata = Metadata()
    peers: dict[BrokerId, TestBroker] = {}
    broker = await TestBroker(1, metadata, peers, disks=2).start()
    first, second = metadata.image.brokers[ONE].directories
    placed = place(metadata, 1)
    topic = metadata.create(
        "orders", placed, replace(placed, replicas=(replace(placed.replicas[0], directory_id=second),))
    )
    assert (await broker.leads(topic, 0)).identity.directory_id == first
    assert (await broker.leads(topic, 1)).identity.directory_id == second
    assert [len(names_in(broker, disk)) for disk in (0, 1)] == [1, 1]


@virtual
async def test_a_replica_whose_directory_is_gone_is_made_anew_elsewhere_and_joins_from_there() -> None:
    metadata = Metadata()
    brokers = await start_brokers(metadata, 3, disks=2)
    topic = metadata.create("orders", place(metadata, 1, 2, 3))
    leader = await brokers[ONE].leads(topic)
    await append(leader, 3).outcome()
    lost, other = metadata.image.brokers[THREE].directories
    await brokers[THREE].stop()
    brokers[THREE].paths = brokers[THREE].paths[1:]
    await brokers[THREE].start()
    replica = await brokers[THREE].opened(topic)
    assert replica.identity.directory_id == other
    await until(lambda: THREE in metadata.partition(topic).isr)
    assert metadata.partition(topic).directory_of(THREE) == other
    # The old directory comes back: what is there is not the replica any more.
    await brokers[THREE].stop()
    brokers[THREE].paths = [f"{ROOT}/d0", f"{ROOT}/d1"]
    await brokers[THREE].start()
    assert (await brokers[THREE].opened(topic)).identity.directory_id == other
    assert [("-stray." in name) for name in names_in(brokers[THREE], 0)] == [True]
    assert lost in metadata.image.brokers[THREE].directories


@virtual
async def test_a_replica_that_was_begun_elsewhere_is_gone_on_with() -> None:
    """The metadata name the directory that is away until the replica is in sync again."""
    metadata = Metadata()
    brokers = await start_brokers(metadata, 2, disks=3)
    topic = metadata.create("orders", place(metadata, 1, 2))
    await append(await brokers[ONE].leads(topic), 3).outcome()
    broker = brokers[TWO]
    await broker.stop()
    broker.paths = broker.paths[1:]
    await broker.start(is_ready=False)
    begun = await broker.follows(topic)
    await until(lambda: begun.log.stable_end == 3)
    directory_id = begun.identity.directory_id
    assert metadata.partition(topic).directory_of(TWO) not in (directory_id, None)
    await broker.stop()
    await broker.start(is_ready=False)
    again = await broker.opened(topic)
    assert (again.identity.directory_id, again.log_end) == (directory_id, 3)


# -- stopping


@virtual
async def test_whoever_stops_neither_leads_nor_follows() -> None:
    metadata = Metadata()
    brokers = await start_brokers(metadata, 2)
    topic = metadata.create("orders", place(metadata, 1, 2), place(metadata, 2, 1))
    leader = await brokers[ONE].leads(topic, 0)
    follower: Replica = await brokers[ONE].follows(topic, 1)
    pending = append(leader, timeout_ms=60_000)
    brokers[ONE].task.cancel()
    await asyncio.wait([brokers[ONE].task])
    assert pending.done()
    assert not isinstance(follower.role, FollowerRole)
    assert brokers[ONE].sink.followed == []
