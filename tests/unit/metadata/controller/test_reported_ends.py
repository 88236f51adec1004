"""What brokers say of logs without a leader counts only if it is true by now."""

from dataclasses import replace

import pytest
from support.metadata_images import FENCED, broker, epoch_of, ids, partition, topic_id

from lograft.metadata.controller.reported_ends import ReportedEnds
from lograft.metadata.decisions.partitions.log_ends import LogEnd
from lograft.metadata.image.partition import BrokerEpoch, LeaderEpoch, Partition, PartitionEpoch
from lograft.metadata.image.record_codec import encode_operation
from lograft.metadata.image.records import (
    BrokerRegistered,
    Operation,
    PartitionChanged,
    Record,
    TopicCreated,
    TopicDeleted,
)
from lograft.metadata.image.snapshot import encode_snapshot
from lograft.metadata.image.state_machine import MetadataMachine
from lograft.proto import errors_pb2
from lograft.proto.controller_pb2 import BrokerHeartbeatRequest
from lograft.rpc.coded_error import ControllerError

ONE, TWO, THREE = ids(1, 2, 3)
ORDERS = topic_id(1)
LOST = partition(1, 2, isr=())
LED = partition(1, 2, isr=(1,))


class Controller:
    """A controller's metadata, and what brokers reported to it. Partitions 0 and 1 are led, or not."""

    def __init__(self, *partitions: Partition) -> None:
        self.machine = MetadataMachine()
        self.ends = ReportedEnds()
        self.machine.listen(self.ends)
        self.commit(*(BrokerRegistered(each) for each in (broker(1), broker(2), broker(3, state=FENCED))))
        self.commit(TopicCreated(ORDERS, "orders"))
        for number, each in enumerate(partitions):
            self.commit(PartitionChanged(ORDERS, number, each))

    def commit(self, *records: Record) -> None:
        index = self.machine.index + 1
        self.machine.apply(index, encode_operation(Operation(self.machine.image.sequence, records)))
        self.machine.committed(index)

    def become(self, number: int, wanted: Partition) -> None:
        """In its next epochs."""
        before = self.machine.image.topics[ORDERS].partitions[number]
        epochs = (LeaderEpoch(before.leader_epoch + 1), PartitionEpoch(before.partition_epoch + 1))
        changed = replace(wanted, leader_epoch=epochs[0], partition_epoch=epochs[1])
        self.commit(PartitionChanged(ORDERS, number, changed))

    def restart(self) -> None:
        """The metadata is replaced by a leader's snapshot of the same, one entry later."""
        index = self.machine.index + 1
        self.machine.restore(index.to_bytes(8, "big") + encode_snapshot(self.machine.image))

    def note(
        self, broker_id: int, *ends: tuple[int, int, int], epoch: int | None = None, at: int | None = None
    ) -> None:
        """`ends`: (partition, last epoch, end offset). `at`: how far the broker was when it said so."""
        heartbeat = BrokerHeartbeatRequest(metadata_index=at if at is not None else self.machine.index)
        for number, last_epoch, end_offset in ends:
            heartbeat.log_ends.add(
                topic_id=ORDERS.bytes, partition=number, last_epoch=last_epoch, end_offset=end_offset
            )
        own_epoch = epoch_of(broker_id) if epoch is None else BrokerEpoch(epoch)
        self.ends.note((ids(broker_id)[0], own_epoch), heartbeat, self.machine.image)

    @property
    def known(self) -> dict[int, dict[int, tuple[int, int]]]:
        """By partition and broker: (last epoch, end offset)."""
        return {
            number: {broker_id: (end.last_epoch, end.end_offset) for broker_id, end in ends.items()}
            for (_, number), ends in self.ends.log_ends.items()
        }


def test_what_each_replica_says_is_known_with_the_epoch_of_its_process() -> None:
    here = Controller(LOST)
    here.note(1, (0, 5, 100))
    here.note(2, (0, -1, 0))
    assert here.ends.log_ends == {
        (ORDERS, 0): {
            ONE: LogEnd(epoch_of(1), LeaderEpoch(5), 100),
            TWO: LogEnd(epoch_of(2), LeaderEpoch(-1), 0),
        }
    }


def test_the_latest_word_of_a_broker_takes_the_place_of_all_it_said_before() -> None:
    here = Controller(LOST, LOST)
    here.note(1, (0, 5, 100), (1, 5, 7))
    here.note(2, (0, 5, 90))
    here.note(1, (0, 6, 101))
    assert here.known == {0: {1: (6, 101), 2: (5, 90)}}
    here.note(1)
    assert here.known == {0: {2: (5, 90)}}
    here.note(2)
    assert here.known == {}


@pytest.mark.parametrize(
    ("said_by", "number"),
    [(1, 1), (3, 0), (1, 7)],
    ids=["of a partition that has a leader", "by who has no replica", "of a partition that there is not"],
)
def test_a_report_that_does_not_fit_what_is_known_is_passed_over(said_by: int, number: int) -> None:
    here = Controller(LOST, LED)
    here.note(said_by, (number, 5, 100))
    assert here.known == {}


def test_a_topic_that_there_is_not_is_passed_over_and_the_rest_is_known() -> None:
    here = Controller(LOST)
    heartbeat = BrokerHeartbeatRequest(metadata_index=here.machine.index)
    heartbeat.log_ends.add(topic_id=topic_id(9).bytes, partition=0, last_epoch=1, end_offset=1)
    heartbeat.log_ends.add(topic_id=ORDERS.bytes, partition=0, last_epoch=2, end_offset=2)
    here.ends.note((ONE, epoch_of(1)), heartbeat, here.machine.image)
    assert here.known == {0: {1: (2, 2)}}


@pytest.mark.parametrize("epoch", [1, 999], ids=["an earlier process", "an epoch that was never given out"])
def test_the_word_of_another_process_neither_counts_nor_takes_away_what_the_present_one_said(epoch: int) -> None:
    here = Controller(LOST, LOST)
    here.note(1, (0, 5, 100))
    here.note(1, (1, 9, 900), epoch=epoch)
    assert here.known == {0: {1: (5, 100)}}


def test_a_broker_that_is_not_registered_has_nothing_to_say() -> None:
    here = Controller(partition(1, 2, 9, isr=()))
    here.note(9, (0, 5, 100))
    assert here.known == {}


def test_an_id_that_is_none_is_refused() -> None:
    here = Controller(LOST)
    heartbeat = BrokerHeartbeatRequest(log_ends=[BrokerHeartbeatRequest.LogEnd(topic_id=b"short")])
    with pytest.raises(ControllerError, match="UUID of 16 bytes") as caught:
        here.ends.note((ONE, epoch_of(1)), heartbeat, here.machine.image)
    assert caught.value.code == errors_pb2.INVALID_REQUEST


def test_a_leader_makes_all_that_was_said_before_void() -> None:
    here = Controller(LOST, LOST)
    here.note(1, (0, 5, 100), (1, 5, 7))
    here.note(2, (0, 5, 90))
    here.become(0, LED)
    assert here.known == {1: {1: (5, 7)}}
    here.become(0, LOST)
    assert here.known == {1: {1: (5, 7)}}
    here.note(1, (0, 6, 60), (1, 5, 7))
    assert here.known == {0: {1: (6, 60)}, 1: {1: (5, 7)}}


def test_a_change_that_brings_no_leader_takes_nothing_away() -> None:
    here = Controller(LOST)
    here.note(1, (0, 5, 100))
    here.become(0, LOST)
    assert here.known == {0: {1: (5, 100)}}


def test_what_was_said_before_the_last_leader_and_comes_after_it_does_not_count() -> None:
    here = Controller(LOST)
    composed_at = here.machine.index
    here.become(0, LED)
    here.become(0, LOST)
    here.note(1, (0, 5, 100), at=composed_at)
    here.note(2, (0, 5, 90), at=here.machine.index - 1)
    assert here.known == {}
    here.become(0, LOST)
    here.note(1, (0, 5, 80), at=here.machine.index - 1)  # it knew that the leader was lost
    assert here.known == {0: {1: (5, 80)}}


def test_a_snapshot_makes_all_void_for_it_does_not_tell_what_happened() -> None:
    here = Controller(LOST)
    before = here.machine.index
    here.note(1, (0, 5, 100))
    here.restart()
    assert here.known == {}
    here.note(1, (0, 5, 100), at=before)
    assert here.known == {}
    here.note(1, (0, 6, 100))
    assert here.known == {0: {1: (6, 100)}}


def test_nothing_is_kept_of_a_topic_that_was_deleted() -> None:
    for is_restored in (False, True):
        here = Controller(LOST, LOST)
        if is_restored:
            here.restart()
        here.note(1, (0, 5, 100), (1, 5, 100))
        here.commit(TopicDeleted(ORDERS))
        assert here.known == {}
        here.note(1)
        assert not any(vars(here.ends)[name] for name in ("_ends", "_keys", "_lost_index"))
