"""Brokers say with each heartbeat which of their directories are full."""

import pytest
from support.metadata_images import broker, brokers, directory, epoch_of, image_with, replica

from lograft.metadata.controller.reported_disks import ReportedDisks
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerEpoch, BrokerId
from lograft.proto.controller_pb2 import BrokerHeartbeatRequest
from lograft.rpc.coded_error import ControllerError

IMAGE = image_with(*brokers(3, directories=2))


class Reports:
    def __init__(self) -> None:
        self.disks = ReportedDisks()
        self.disks.on_change = self._note_change
        self.changes = 0

    def _note_change(self) -> None:
        self.changes += 1

    def say(
        self, broker_id: int, *full: int, critical: bool = False, epoch: int | None = None, image: ClusterImage = IMAGE
    ) -> None:
        """The directories of these numbers are full; -1: the broker says nothing of them."""
        heartbeat = BrokerHeartbeatRequest()
        if -1 not in full:
            heartbeat.full_directories.SetInParent()
            for number in full:
                directory_id = directory(broker_id, number).bytes
                heartbeat.full_directories.directories.add(directory_id=directory_id, is_critical=critical)
        process = BrokerId(broker_id), BrokerEpoch(epoch) if epoch is not None else epoch_of(broker_id)
        self.disks.note(process, heartbeat, image)

    @property
    def full(self) -> dict[object, bool]:
        return dict(self.disks.room(IMAGE).full)  # type: ignore[arg-type]


def test_the_latest_word_of_each_broker_counts() -> None:
    reports = Reports()
    assert reports.full == {}
    reports.say(1, 0)
    reports.say(2, 0, 1, critical=True)
    assert reports.full == {replica(1): False, replica(2): True, replica(2, 1): True}
    reports.say(2, 1)
    assert reports.full == {replica(1): False, replica(2, 1): False}
    reports.say(1)
    assert reports.full == {replica(2, 1): False}
    assert reports.changes == 4


def test_only_changes_are_told() -> None:
    reports = Reports()
    for said, changes in (((), 0), ((0,), 1), ((0,), 1), ((0, 1), 2), ((), 3), ((-1,), 3), ((1,), 4), ((-1,), 5)):
        reports.say(1, *said)
        assert reports.changes == changes, said


def test_a_broker_that_does_not_say_has_room() -> None:
    reports = Reports()
    reports.say(1, 0)
    reports.say(1, -1)
    assert reports.full == {}


def test_what_an_earlier_process_said_does_not_count_for_the_next() -> None:
    reports = Reports()
    reports.say(1, 0)
    again = image_with(broker(1, directories=2, epoch=900), broker(2), broker(3))
    assert dict(reports.disks.room(again).full) == {}
    reports.say(1, 1, image=again)  # it is late
    assert dict(reports.disks.room(again).full) == {}
    reports.say(1, 1, epoch=900, image=again)
    assert dict(reports.disks.room(again).full) == {replica(1, 1): False}


def test_an_unknown_process_leaves_nothing_behind() -> None:
    reports = Reports()
    for number in range(10, 100):
        reports.say(number, 0)
    reports.say(1, 0, epoch=5)
    assert (reports.full, reports.changes, len(reports.disks._reports)) == ({}, 0, 0)


def test_a_broker_that_was_unregistered_is_forgotten() -> None:
    reports = Reports()
    for number in (1, 2, 3):
        reports.say(number, 0)
    left = image_with(broker(1))
    reports.say(1, 0, image=left)
    assert list(reports.disks._reports) == [1]


def test_a_directory_that_is_no_uuid_is_refused() -> None:
    heartbeat = BrokerHeartbeatRequest()
    heartbeat.full_directories.directories.add(directory_id=b"short")
    with pytest.raises(ControllerError, match="full_directories"):
        ReportedDisks().note((BrokerId(1), epoch_of(1)), heartbeat, IMAGE)
