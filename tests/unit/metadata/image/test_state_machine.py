"""The metadata as Raft's state machine."""

import pytest
from support.metadata_images import topic_id
from support.metadata_quorum import MetadataCluster
from support.raft_nodes import virtual
from support.scripted_quorum import name_topic

from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.record_codec import encode_operation
from lograft.metadata.image.records import Operation, Record, TopicCreated
from lograft.metadata.image.state_machine import Applied, MachineListener, MetadataMachine
from lograft.proto.wire_format import CodecError
from lograft.raft.driver.snapshots import SnapshotPolicy


def operation(sequence: int, number: int) -> bytes:
    return encode_operation(Operation(sequence, (created(number),)))


def created(number: int) -> TopicCreated:
    return TopicCreated(topic_id(number), f"topic-{number}")


class Recorder(MachineListener):
    def __init__(self, machine: MetadataMachine) -> None:
        self._machine = machine
        self.heard: list[tuple[object, ...]] = []
        machine.listen(self)

    def applied(self, index: int, records: tuple[Record, ...]) -> None:
        self.heard.append(("applied", index, records, len(self._machine.image.topics)))

    def restored(self, index: int) -> None:
        self.heard.append(("restored", index, len(self._machine.image.topics)))

    def advanced(self, index: int) -> None:
        self.heard.append(("advanced", index))


def test_an_operation_changes_the_image_and_is_told() -> None:
    machine = MetadataMachine()
    recorder = Recorder(machine)
    assert machine.apply(3, operation(0, 1)) == Applied(3, took_effect=True)
    machine.committed(4)
    assert machine.index == 4
    assert list(machine.image.topics) == [topic_id(1)]
    assert recorder.heard == [("applied", 3, (created(1),), 1), ("advanced", 4)]
    deltas = machine.deltas.since(0)
    assert deltas is not None
    assert [(delta.index, delta.data) for delta in deltas] == [(3, operation(0, 1))]


def test_an_operation_decided_on_another_state_changes_nothing_and_is_not_told() -> None:
    machine = MetadataMachine()
    machine.apply(1, operation(0, 1))
    recorder = Recorder(machine)
    assert machine.apply(2, operation(0, 2)) == Applied(2, took_effect=False)
    assert machine.index == 2
    assert list(machine.image.topics) == [topic_id(1)]
    assert recorder.heard == []
    assert machine.deltas.since(1) == []


def test_bytes_that_are_no_operation_break_the_node() -> None:
    with pytest.raises(CodecError):
        MetadataMachine().apply(1, b"\xff\xff")


def test_a_snapshot_is_as_of_when_it_was_asked_for() -> None:
    machine = MetadataMachine()
    machine.apply(5, operation(0, 1))
    make = machine.snapshot()
    before = machine.image.copy()
    machine.apply(6, operation(1, 2))
    other = MetadataMachine()
    other.restore(make())
    assert other.image == before
    assert other.index == 5
    assert other.apply(6, operation(1, 2)).took_effect
    assert other.image == machine.image


def test_a_restored_image_is_told_and_what_led_to_it_is_not_known() -> None:
    source = MetadataMachine()
    source.apply(7, operation(0, 1))
    machine = MetadataMachine()
    recorder = Recorder(machine)
    machine.restore(source.snapshot()())
    assert recorder.heard == [("restored", 7, 1)]
    assert machine.deltas.since(6) is None
    assert machine.deltas.since(7) == []


def test_the_index_does_not_go_back_when_a_snapshot_knows_of_fewer_entries_that_changed_nothing() -> None:
    source = MetadataMachine()
    source.apply(7, operation(0, 1))
    machine = MetadataMachine()
    machine.apply(7, operation(0, 1))
    machine.committed(9)
    machine.restore(source.snapshot()())
    assert machine.index == 9
    assert machine.image == source.image
    assert machine.deltas.since(9) == []


def test_the_empty_image_survives_a_snapshot() -> None:
    machine = MetadataMachine()
    machine.restore(MetadataMachine().snapshot()())
    assert machine.image == ClusterImage()
    assert machine.index == 0


@virtual
async def test_a_real_node_keeps_its_image_over_snapshots_and_restarts() -> None:
    cluster = MetadataCluster(1, policy=SnapshotPolicy(entries=10, kept_entries=3))
    await cluster.initialise([1])
    host = cluster[1]
    await host.start()
    await cluster.until(lambda: host.controller.is_active)
    for number in range(1, 26):
        await host.controller.submit(name_topic(f"topic-{number}", number))
    await cluster.until(lambda: host.disk.content.snapshot.metadata.index > 0)
    image, index = host.machine.image, host.machine.index
    await host.crash()
    node = await host.start()
    await cluster.until(lambda: host.controller.is_active)
    assert host.machine.image == image
    assert host.machine.index == node.applied_index > index
    assert host.machine.deltas.floor > 0
    await host.stop()


@virtual
async def test_every_member_has_the_same_image_and_index() -> None:
    cluster = MetadataCluster(3)
    await cluster.initialise([1, 2, 3])
    hosts = list(cluster.hosts.values())
    for host in hosts:
        await host.start()
    await cluster.until(lambda: any(host.controller.is_active for host in hosts))
    active = next(host for host in hosts if host.controller.is_active)
    committed = await active.controller.submit(name_topic("a", 1))
    await cluster.until(lambda: all(host.machine.index >= committed.index for host in hosts))
    assert all(host.machine.image == active.machine.image for host in hosts)
    for host in hosts:
        await host.stop()
