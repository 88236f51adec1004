"""A data directory is copied, used further, and the copy put back: what it lacks is not lost for that."""

import asyncio

import pytest
from support.led_replicas import led
from support.metadata_images import ids
from support.replica_brokers import Metadata, TestBroker, append, place, start_brokers, until
from support.virtual_log import virtual

from lograft.broker.hosting.replica_manager import AllDirectoriesFailed
from lograft.broker.replica.replica import Replica
from lograft.metadata.decisions.brokers.fencing import fence
from lograft.metadata.image.partition import BrokerId, TopicId
from lograft.rpc.coded_error import ControllerError
from lograft.storage.log.data_directory import mark_restored
from lograft.storage.state.used_epoch import USED_EPOCH_FILE, read_use
from lograft.storage.state.watermarks_file import WATERMARKS_FILE

ONE, TWO, THREE = ids(1, 2, 3)


def used_epoch(broker: TestBroker, disk: int = 0) -> int | None:
    return read_use(broker.machine.files, broker.paths[disk]).used_epoch


@virtual
async def test_a_copy_from_the_past_is_not_elected_and_catches_up() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led(metadata)
    await append(leader, 3).outcome()
    one = brokers[ONE]
    await one.stop()
    copy = one.machine.files.copy_directory(one.paths[0])
    await one.start()
    await until(lambda: metadata.partition(topic).isr == ids(1, 2, 3))
    leader = await brokers[TWO].leads(topic)
    for _ in range(5):
        await append(leader).outcome()
    # All stop, the one to be put back last: it alone may lead.
    await brokers[THREE].stop()
    await brokers[TWO].stop()
    await until(lambda: metadata.partition(topic).leader == ONE)
    await one.stop()
    one.machine.files.put_back(one.paths[0], copy)
    await one.start()
    assert metadata.partition(topic).leader is None
    await brokers[TWO].start()
    leader = await brokers[TWO].leads(topic)
    await until(lambda: metadata.partition(topic).isr == ids(1, 2))
    assert one.replica(topic).log_end == leader.log_end == 8


@virtual
async def test_whoever_is_ready_has_noted_its_epoch_in_every_directory() -> None:
    metadata = Metadata()
    broker = await TestBroker(1, metadata, {}, disks=2).start()
    epoch = metadata.image.brokers[ONE].epoch
    assert [used_epoch(broker, disk) for disk in (0, 1)] == [epoch, epoch]
    assert set(metadata.image.confirmed.values()) == {epoch}


@pytest.mark.parametrize("power_fails", [False, True])
@virtual
async def test_a_process_that_ends_at_any_moment_of_its_start_loses_no_standing(power_fails: bool) -> None:
    """Between registration and the note above all: who took that for a copy would give up the last good replica."""
    metadata = Metadata()
    brokers, topic, leader = await led(metadata, 1)
    await append(leader, 3).outcome()
    broker = brokers[ONE]
    for call in range(1, 120):
        broker.kill(power_fails=power_fails)
        metadata.carry_out(fence(metadata.image, ONE, metadata.image.brokers[ONE].epoch))
        broker.begin()
        await broker.open_directories()
        broker.register()
        assert metadata.partition(topic).is_eligible(ONE), f"before call {call}"
        broker.machine.files.crash_at(broker.machine.files.calls + call)
        broker.run()
        await until(lambda: broker.machine.files.crashed or broker.manager.is_recovered)
        if broker.manager.is_recovered:
            break
        await asyncio.wait([broker.task], timeout=1)
    assert call > 10, "it was never interrupted"
    assert not broker.machine.files.crashed, "more calls than this test tries"
    broker.machine.files.points.restart()  # none is to come any more
    await broker.until_ready()
    assert metadata.partition(topic).leader == ONE
    assert (await broker.leads(topic)).log_end == 3


@virtual
async def test_nothing_in_a_directory_is_touched_before_the_epoch_is_noted() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led(metadata, 1)
    await append(leader, 3).outcome()
    broker = brokers[ONE]
    await broker.stop()
    broker.begin()
    await broker.open_directories()
    broker.register()
    calls: list[str] = []
    points = broker.machine.files.points
    before = points.call

    def noting(name: str, *rest: object) -> object:
        calls.append(name)
        return before(name, *rest)  # type: ignore[arg-type]

    points.call = noting  # type: ignore[method-assign, assignment]
    broker.run()
    await broker.until_ready()
    await broker.leads(topic)
    noted = calls.index(f"rename {USED_EPOCH_FILE}.tmp {USED_EPOCH_FILE}") + 1
    assert calls[noted] == "sync_directory d0"
    assert [call for call in calls[:noted] if not call.endswith(f" {WATERMARKS_FILE}")] == [
        f"create {USED_EPOCH_FILE}.tmp", f"write {USED_EPOCH_FILE}.tmp", f"sync {USED_EPOCH_FILE}.tmp",
        f"close {USED_EPOCH_FILE}.tmp", f"rename {USED_EPOCH_FILE}.tmp {USED_EPOCH_FILE}",
    ]  # fmt: skip


@virtual
async def test_a_directory_that_cannot_take_the_note_is_not_confirmed() -> None:
    """It is reported before the broker is ready; else it would be taken for a copy when it works again."""
    metadata = Metadata()
    broker = await TestBroker(1, metadata, {}, disks=2).start()
    (first, _) = metadata.image.brokers[ONE].directories
    await broker.stop()
    broker.machine.files.fail_writes(f"d1/{USED_EPOCH_FILE}")
    await broker.start(is_ready=False)
    is_heard = asyncio.Event()
    broker.view.report = is_heard.wait
    await asyncio.sleep(20)
    assert not broker.manager.is_recovered
    is_heard.set()
    await broker.until_ready()
    epoch = metadata.image.brokers[ONE].epoch
    assert metadata.image.brokers[ONE].directories == (first,)
    assert metadata.image.confirmed == {first: epoch}  # nothing is in the second: it is forgotten
    assert used_epoch(broker, 1) != epoch


@virtual
async def test_a_replica_in_a_directory_that_cannot_take_the_note_keeps_its_standing() -> None:
    metadata = Metadata()
    peers: dict[BrokerId, TestBroker] = {}
    broker = await TestBroker(1, metadata, peers, disks=2).start()
    placed = place(metadata, 1)
    topic = metadata.create("orders", placed)
    await append(await broker.leads(topic), 3).outcome()
    await broker.stop()
    broker.machine.files.fail_writes(f"d0/{USED_EPOCH_FILE}")
    await broker.start()
    assert metadata.partition(topic).leader is None
    await broker.stop()
    broker.machine.files.fail_writes(None)
    broker.mend_disks()
    await broker.start()
    assert (await broker.leads(topic)).log_end == 3


@virtual
async def test_without_any_directory_that_takes_the_note_it_is_never_ready() -> None:
    metadata = Metadata()
    broker = (await start_brokers(metadata, 1))[ONE]
    await broker.stop()
    broker.machine.files.fail_writes(USED_EPOCH_FILE)
    await broker.start(is_ready=False)
    await asyncio.wait([broker.task])
    failure = broker.task.exception()
    assert isinstance(failure, ExceptionGroup)
    assert failure.subgroup(AllDirectoriesFailed) is not None
    assert not broker.manager.is_recovered


@virtual
async def test_all_directories_and_the_metadata_put_back_from_one_moment_work() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led(metadata)
    await append(leader, 3).outcome()
    await until(lambda: all(broker.replica(topic).log_end == 3 for broker in brokers.values()))
    for broker in brokers.values():
        await broker.stop()
    copies = {broker: broker.machine.files.copy_directory(broker.paths[0]) for broker in brokers.values()}
    image, history = metadata.image.copy(), list(metadata.history)
    for broker in brokers.values():
        await broker.start()
    await until(lambda: len(metadata.partition(topic).isr) == 3)
    await append(await leader_of(metadata, brokers, topic), 5).outcome()
    for broker in brokers.values():
        await broker.stop()
    metadata.image, metadata.history = image, history
    for broker, copy in copies.items():
        broker.machine.files.put_back(broker.paths[0], copy)
        await broker.start()
    leader = await leader_of(metadata, brokers, topic)
    await until(lambda: metadata.partition(topic).isr == ids(1, 2, 3))
    assert leader.log_end == 3
    await append(leader).outcome()


async def leader_of(metadata: Metadata, brokers: dict[BrokerId, TestBroker], topic: TopicId) -> Replica:
    await until(lambda: metadata.partition(topic).leader is not None)
    leader = metadata.partition(topic).leader
    assert leader is not None
    return await brokers[leader].leads(topic)


@virtual
async def test_directories_that_are_newer_than_the_metadata_are_refused() -> None:
    metadata = Metadata()
    broker = await TestBroker(1, metadata, {}).start()
    await broker.stop()
    image, history = metadata.image.copy(), list(metadata.history)
    await broker.start()
    await broker.stop()
    metadata.image, metadata.history = image, history
    with pytest.raises(ControllerError, match="the metadata are from the past"):
        await broker.start()
    # With nothing newer to be had, somebody says so.
    for directory in broker.directories:
        await directory.close()
    broker.machine.boot()
    mark_restored(broker.machine.files, broker.paths[0])
    await broker.start()
