"""Disks that fail: what was there is led by others, and made anew on another disk once the controller knows."""

import asyncio
import errno
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from itertools import count
from uuid import UUID

import pytest
from support.led_replicas import ONE, THREE, TWO, led_with_records
from support.metadata_images import ids
from support.replica_brokers import Metadata, TestBroker, append, place, start_brokers, until
from support.virtual_log import ROOT, virtual

from lograft.broker.hosting.replica_manager import AllDirectoriesFailed
from lograft.broker.replica.follower_role import FollowerRole
from lograft.broker.replica.interfaces import OffsetKind, OffsetSpec
from lograft.broker.replica.leader_role import LeaderRole
from lograft.broker.replica.replica import Failed, Replica
from lograft.broker.replication.follower_core import Subscribe
from lograft.broker.replication.interfaces import ResetTo
from lograft.broker.replication.leader_core import Subscriber
from lograft.chaos.world.files import VirtualFile, VirtualFiles
from lograft.metadata.decisions.brokers.fencing import unfence
from lograft.metadata.image.partition import BrokerId
from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ReplicaError
from lograft.runtime.disk.disk_writer import DiskFailed
from lograft.storage.files.file_names import PartitionName
from lograft.storage.log.log_config import LogConfig
from lograft.storage.log.partition_log import PartitionLog


@virtual
async def test_a_failed_disk_ends_what_was_led_there_and_it_is_made_anew_on_another() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led_with_records(metadata, disks=2)
    first, second = metadata.image.brokers[ONE].directories
    brokers[ONE].machine.files.fail_next_sync(leader.log.directory)
    pending = append(leader)
    with pytest.raises(ReplicaError) as unknown:
        await pending.outcome()
    assert unknown.value.code == errors_pb2.STORAGE_FAILED
    assert isinstance(leader.role, Failed)
    await brokers[TWO].leads(topic)
    assert brokers[ONE].view.reports == [([first], [])]
    await until(lambda: ONE in metadata.partition(topic).isr)
    again = brokers[ONE].replica(topic)
    assert again.identity.directory_id == second == metadata.partition(topic).directory_of(ONE)
    await until(lambda: again.log_end == brokers[TWO].replica(topic).log_end)


@virtual
async def test_a_disk_has_not_failed_because_the_process_has_no_descriptor_to_spare() -> None:
    """A new segment needs one, and so do the notes beside it: they wait, and what was sent is stored."""
    metadata = Metadata()
    brokers, _, leader = await led_with_records(metadata)
    files, segments = brokers[ONE].machine.files, len(leader.log.segments)
    for _ in range(3):
        files.run_short(3)
        while files.shortages:
            appended = await append(leader, timeout_ms=60_000).outcome()
    assert len(leader.log.segments) > segments
    assert appended.base_offset < leader.high_watermark
    assert (leader.log.failure, brokers[ONE].view.reports) == (None, [])
    assert isinstance(leader.role, LeaderRole)


@virtual
async def test_a_log_that_cannot_be_opened_for_want_of_a_descriptor_is_opened_later() -> None:
    metadata = Metadata()
    brokers = await start_brokers(metadata, 1)
    metadata.create("first", place(metadata, 1))
    files = brokers[ONE].machine.files
    files.run_short(5)
    topic = metadata.create("orders", place(metadata, 1))
    leader = await brokers[ONE].leads(topic)
    assert files.shortages == 0
    await append(leader).outcome()
    assert brokers[ONE].view.reports == []


@virtual
async def test_a_failed_disk_does_not_touch_logs_on_another() -> None:
    metadata = Metadata()
    brokers, _, leader = await led_with_records(metadata, disks=2)
    second = metadata.image.brokers[ONE].directories[1]
    placed = place(metadata, 1, 2)
    other = metadata.create(
        "other", replace(placed, replicas=(replace(placed.replicas[0], directory_id=second), placed.replicas[1]))
    )
    elsewhere = await brokers[ONE].leads(other)
    role = elsewhere.role
    brokers[ONE].machine.files.fail_next_sync(leader.log.directory)
    append(leader)
    await until(lambda: isinstance(leader.role, Failed))
    await append(elsewhere).outcome()
    assert elsewhere.role is role


@virtual
async def test_a_log_that_was_being_opened_when_its_disk_failed_is_made_on_another() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led_with_records(metadata, disks=2)
    directory = brokers[ONE].directories[0]
    opening, open_partition = asyncio.Event(), directory.open_partition

    async def slowly(name: PartitionName, config: LogConfig, noted: int | None) -> PartitionLog:
        await opening.wait()
        return await open_partition(name, config, noted)

    directory.open_partition = slowly  # type: ignore[assignment, method-assign]
    other = metadata.create("other", place(metadata, 1, 2))
    brokers[ONE].machine.files.fail_next_sync(leader.log.directory)
    append(leader)
    await until(lambda: brokers[ONE].has(topic) and brokers[ONE].replica(topic) is not leader)
    opening.set()
    replica = await brokers[ONE].opened(other)
    assert replica.identity.directory_id == brokers[ONE].directories[1].identity


@virtual
async def test_nothing_is_begun_elsewhere_before_the_controller_knows_of_a_failed_disk() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led_with_records(metadata, disks=2)
    reported = asyncio.Event()
    brokers[ONE].view.report = reported.wait
    brokers[ONE].machine.files.fail_next_sync(leader.log.directory)
    append(leader)
    await until(lambda: isinstance(leader.role, Failed))
    metadata.configure(topic, "retention.ms", "-1")
    await asyncio.sleep(5)
    assert not brokers[ONE].has(topic)
    assert metadata.partition(topic).leader == ONE
    reported.set()
    await brokers[ONE].follows(topic)


@virtual
async def test_a_disk_that_fails_before_anybody_has_the_log_it_opened_is_a_failed_disk() -> None:
    metadata = Metadata()
    brokers = await start_brokers(metadata, 2, disks=2)
    directory = brokers[TWO].directories[0]
    open_partition = directory.open_partition

    async def and_fail(name: PartitionName, config: LogConfig, noted: int | None) -> PartitionLog:
        log = await open_partition(name, config, noted)
        with suppress(DiskFailed):
            await directory.disk.writer.fail(directory.path, OSError(errno.EIO, "a test says so"))
        return log

    directory.open_partition = and_fail  # type: ignore[assignment, method-assign]
    topic = metadata.create("orders", place(metadata, 1, 2))
    replica = await brokers[TWO].follows(topic)
    assert replica.identity.directory_id == brokers[TWO].directories[1].identity
    await until(lambda: metadata.partition(topic).directory_of(TWO) == replica.identity.directory_id)


@virtual
async def test_a_follower_whose_disk_fails_says_nothing_more() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led_with_records(metadata, disks=2)
    follower = brokers[TWO].replica(topic)
    brokers[TWO].machine.files.fail_next_sync(follower.log.directory)
    pending = append(leader, timeout_ms=60_000)
    await until(lambda: isinstance(follower.role, Failed))
    await pending.outcome()
    await until(lambda: TWO in metadata.partition(topic).isr)
    assert isinstance(brokers[TWO].replica(topic).role, FollowerRole)


@virtual
async def test_without_a_disk_left_the_node_ends_once_the_controller_knows() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led_with_records(metadata)
    brokers[ONE].machine.files.fail_next_sync(leader.log.directory)
    append(leader)
    with pytest.raises(ExceptionGroup) as ended:
        await brokers[ONE].task
    assert ended.group_contains(AllDirectoriesFailed)
    assert ONE not in metadata.partition(topic).isr


@virtual
async def test_what_could_not_be_synced_is_not_relied_on_by_the_next_process() -> None:
    """The kernel shows it, and would call the next sync a success."""
    metadata = Metadata()
    brokers, _, leader = await led_with_records(metadata, 1)
    brokers[ONE].machine.files.fail_next_sync(leader.log.directory)
    append(leader)
    with pytest.raises(ExceptionGroup):
        await brokers[ONE].task
    brokers[ONE].kill()
    brokers[ONE].begin()
    await brokers[ONE].open_directories()
    assert brokers[ONE].directories == []


@virtual
async def test_without_a_disk_and_a_controller_the_node_ends_all_the_same() -> None:
    metadata = Metadata()
    brokers, _, leader = await led_with_records(metadata)

    async def nobody() -> None:
        await asyncio.get_running_loop().create_future()

    brokers[ONE].view.report = nobody
    brokers[ONE].machine.files.fail_next_sync(leader.log.directory)
    append(leader)
    began = asyncio.get_running_loop().time()
    with pytest.raises(ExceptionGroup) as ended:
        await brokers[ONE].task
    assert ended.group_contains(AllDirectoriesFailed)
    assert asyncio.get_running_loop().time() - began < 5


@virtual
async def test_a_disk_that_fails_while_strays_are_put_aside_is_found_out() -> None:
    metadata = Metadata()
    brokers, topic, _ = await led_with_records(metadata, disks=2)
    broker = brokers[THREE]
    await broker.stop()
    broker.machine.files.make_directory(f"{ROOT}/d0/{PartitionName('lost', 0, UUID(int=9))}")
    broker.begin()
    await broker.open_directories()
    broker.machine.files.fail_next_sync(f"{ROOT}/d0")
    broker.register()
    broker.run()
    await broker.until_ready()
    await until(lambda: THREE in metadata.partition(topic).isr)
    assert broker.view.reports == [([broker.directories[0].identity], [])]
    assert metadata.partition(topic).directory_of(THREE) == broker.directories[1].identity


@virtual
async def test_a_disk_that_cannot_be_read_is_a_failed_disk() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led_with_records(metadata, disks=2)
    leader.log.tail.clear()
    original = leader.log.read

    async def broken(*arguments: int | None, from_disk: bool) -> None:
        raise OSError(errno.EIO, "unreadable")

    leader.log.read = broken  # type: ignore[method-assign, assignment]
    with pytest.raises(DiskFailed):
        await leader.read(0, 1000)
    leader.log.read = original  # type: ignore[method-assign]
    assert isinstance(leader.role, Failed)
    await brokers[TWO].leads(topic)


@virtual
async def test_too_many_open_files_are_no_failed_disk() -> None:
    metadata = Metadata()
    _, _, leader = await led_with_records(metadata)

    async def broken(*arguments: int | None, from_disk: bool) -> None:
        raise OSError(errno.EMFILE, "too many")

    leader.log.read = broken  # type: ignore[method-assign, assignment]
    with pytest.raises(ReplicaError) as refused:
        await leader.read(0, 1000)
    assert refused.value.code == errors_pb2.UNAVAILABLE
    assert not isinstance(leader.role, Failed)


def make_unreadable(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Nothing can be read from any disk any more."""

    def fail(*arguments: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(VirtualFile, "read", fail)
    monkeypatch.setattr(VirtualFile, "read_cached", fail)


@pytest.mark.parametrize("kind", [OffsetKind.AT_TIME, OffsetKind.GREATEST_TIME])
@virtual
async def test_a_search_on_a_disk_that_cannot_be_read_fails_the_disk_alone(kind: OffsetKind) -> None:
    metadata = Metadata()
    brokers, topic, leader = await led_with_records(metadata, disks=2)
    leader.log.tail.clear()
    with pytest.MonkeyPatch.context() as patch:
        make_unreadable(patch, errno.EIO)
        with pytest.raises(DiskFailed):
            await leader.offsets(OffsetSpec(kind, 0))
    assert isinstance(leader.role, Failed)
    await brokers[TWO].leads(topic)


@virtual
async def test_a_search_without_a_file_to_spare_can_be_repeated() -> None:
    metadata = Metadata()
    _, _, leader = await led_with_records(metadata)
    leader.log.tail.clear()
    with pytest.MonkeyPatch.context() as patch:
        make_unreadable(patch, errno.EMFILE)
        with pytest.raises(ReplicaError) as refused:
            await leader.offsets(OffsetSpec(OffsetKind.AT_TIME, 0))
    assert refused.value.code == errors_pb2.UNAVAILABLE
    assert (await leader.offsets(OffsetSpec(OffsetKind.AT_TIME, 0))).offset == 0


async def asks_to_start_over(brokers: dict[BrokerId, TestBroker], leader: Replica) -> Callable[[], Awaitable[object]]:
    """What a follower says to the leader that is below its log's start."""
    leader.log.delete_prefix(list(leader.log.segments)[1].base_offset)
    numbers = count(1000)

    def subscribe() -> Awaitable[object]:
        number = next(numbers)
        (directory,) = brokers[THREE].metadata.image.brokers[THREE].directories
        subscriber = Subscriber(THREE, brokers[THREE].view.broker_epoch, directory, number)
        partition = leader.partition
        assert partition is not None
        request = Subscribe(number, partition.leader_epoch, partition.partition_epoch, 1, 0)
        return leader.subscribe(subscriber, request, Listener())

    return subscribe


class Listener:
    def has_news(self) -> None: ...

    def ended(self, error: ReplicaError) -> None: ...


@pytest.mark.parametrize(
    ("number", "error", "role"),
    [(errno.EIO, DiskFailed, Failed), (errno.EMFILE, ReplicaError, LeaderRole), (errno.ENOENT, ReplicaError, Failed)],
)
@virtual
async def test_producers_that_cannot_be_read_are_no_reason_to_stop_the_node(
    number: int, error: type[Exception], role: type
) -> None:
    metadata = Metadata()
    brokers, _, leader = await led_with_records(metadata)
    brokers[THREE].sink.stop()
    subscribe = await asks_to_start_over(brokers, leader)
    assert isinstance(await subscribe(), ResetTo)
    with pytest.MonkeyPatch.context() as patch:
        if number == errno.ENOENT:
            patch.setattr(VirtualFiles, "open", _gone)
        else:
            make_unreadable(patch, number)
        with pytest.raises(error):
            async with asyncio.timeout(5):
                await subscribe()
    assert isinstance(leader.role, role)


def _gone(files: VirtualFiles, path: str) -> None:
    raise FileNotFoundError(errno.ENOENT, "gone", path)


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOENT])
@virtual
async def test_a_log_that_cannot_be_read_while_it_is_cut_is_given_up(number: int) -> None:
    metadata = Metadata()
    brokers, topic, leader = await led_with_records(metadata, disks=2)
    for follower in (TWO, THREE):
        brokers[follower].sink.stop()
    append(leader)
    await leader.log.wait_stable(21)
    with pytest.MonkeyPatch.context() as patch:
        if number == errno.ENOENT:
            patch.setattr(VirtualFiles, "open", _gone)
        else:
            make_unreadable(patch, number)
        metadata.fence(1)
        await until(lambda: isinstance(leader.role, Failed))
    metadata.carry_out(unfence(metadata.image, ONE, brokers[ONE].view.broker_epoch))
    for follower in (TWO, THREE):
        brokers[follower].sink.start()
    await until(lambda: metadata.partition(topic).isr == ids(1, 2, 3))
