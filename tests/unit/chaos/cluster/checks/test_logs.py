"""Histories that cannot be are written down: each check refuses its own."""

from collections.abc import Callable
from uuid import UUID

import pytest

from lograft.broker.replica.interfaces import Acks
from lograft.chaos.cluster.checks.history import (
    ClusterHistory,
    FinalPartition,
    PartitionKey,
    Read,
    ReplicaLog,
    SentRecord,
    Stored,
    Told,
)
from lograft.chaos.cluster.checks.logs import check_all, check_leader, check_next
from lograft.chaos.harness.failures import InvariantBroken
from lograft.chaos.harness.outcome import Outcome

KEY: PartitionKey = (UUID(int=1), 0)


Spoil = Callable[[ClusterHistory, FinalPartition], None]


def good() -> tuple[ClusterHistory, FinalPartition]:
    """Two records of one producer, read and told of, on two replicas."""
    history = ClusterHistory()
    for number, value in enumerate((b"a", b"b")):
        history.sends[value] = SentRecord(
            KEY, "p", number, value, outcome=Outcome.OK, offset=number, leader_epoch=number + 1
        )
        history.reads.append(Read(KEY, "c", number, value, leader_epoch=2))
    history.told += [Told(KEY, 1, 1, 10, 20), Told(KEY, 1, 2, 30, 40), Told(KEY, 2, 2, 5, 60)]
    final = FinalPartition(2, {})
    _in_all_logs(final, Stored(0, 1, b"a"), Stored(1, 2, b"b"))
    return history, final


def check(history: ClusterHistory, final: FinalPartition) -> None:
    check_all(history, {KEY: final})


def _in_all_logs(final: FinalPartition, *records: Stored, start: int = 0) -> None:
    end = records[-1].offset + 1 if records else start
    final.logs = {1: ReplicaLog(start, end, records), 2: ReplicaLog(start, end, list(records))}


def _in_second_log(final: FinalPartition, *records: Stored) -> None:
    final.logs[2] = ReplicaLog(0, records[-1].offset + 1, list(records))


def _lost(history: ClusterHistory, final: FinalPartition) -> None:
    history.reads.clear()
    history.told.clear()
    _in_all_logs(final, Stored(0, 1, b"a"))


def _lost_though_there_is_no_other_leader(history: ClusterHistory, final: FinalPartition) -> None:
    _lost(history, final)
    history.sends[b"b"].acks = Acks.LEADER


def _moved(history: ClusterHistory, final: FinalPartition) -> None:
    history.reads.clear()
    history.sends[b"b"].offset = 5


def _moved_to_another_place(history: ClusterHistory, final: FinalPartition) -> None:
    history.elected_uncleanly(KEY, 3)
    history.sends[b"b"].offset = 5


def _twice(history: ClusterHistory, final: FinalPartition) -> None:
    _in_all_logs(final, *final.logs[1].records, Stored(2, 2, b"a"))


def _out_of_order(history: ClusterHistory, final: FinalPartition) -> None:
    history.sends[b"a"].number = 7


def _phantom(history: ClusterHistory, final: FinalPartition) -> None:
    _in_all_logs(final, *final.logs[1].records, Stored(2, 2, b"x"))


def _phantom_read(history: ClusterHistory, final: FinalPartition) -> None:
    history.reads.append(Read(KEY, "d", 2, b"x", 2))


def _refused(history: ClusterHistory, final: FinalPartition) -> None:
    history.sends[b"b"].outcome = Outcome.FAIL


def _not_taken(history: ClusterHistory, final: FinalPartition) -> None:
    history.refused[b"b"] = "no"


def _different(history: ClusterHistory, final: FinalPartition) -> None:
    _in_second_log(final, Stored(0, 1, b"a"), Stored(1, 1, b"b"))


def _shorter(history: ClusterHistory, final: FinalPartition) -> None:
    _in_second_log(final, Stored(0, 1, b"a"))


def _taken_back(history: ClusterHistory, final: FinalPartition) -> None:
    history.sends[b"b"].outcome = Outcome.UNKNOWN
    history.told.clear()
    _in_all_logs(final, Stored(0, 1, b"a"))


def _read_otherwise(history: ClusterHistory, final: FinalPartition) -> None:
    history.reads.append(Read(KEY, "d", 0, b"b", 2))


def _hole(history: ClusterHistory, final: FinalPartition) -> None:
    _in_all_logs(final, Stored(0, 1, b"a"), Stored(2, 2, b"b"))


def _deleted(history: ClusterHistory, final: FinalPartition) -> None:
    _in_all_logs(final, Stored(1, 2, b"b"), start=1)


def _epoch_falls(history: ClusterHistory, final: FinalPartition) -> None:
    _in_all_logs(final, Stored(0, 3, b"a"), Stored(1, 2, b"b"))


def _watermark_back(history: ClusterHistory, final: FinalPartition) -> None:
    history.told.append(Told(KEY, 1, 1, 50, 70))


def _later_epoch_behind(history: ClusterHistory, final: FinalPartition) -> None:
    history.told.append(Told(KEY, 2, 1, 1, 2))


def _told_too_much(history: ClusterHistory, final: FinalPartition) -> None:
    history.told.append(Told(KEY, 3, 9, 80, 90))


@pytest.mark.parametrize(("spoil", "rule"), [
    (_lost, "acknowledged is at its offset"),
    (_lost_though_there_is_no_other_leader, "acknowledged is at its offset"),
    (_moved, "acknowledged is at its offset"),
    (_moved_to_another_place, "acknowledged is nowhere else"),
    (_twice, "stored once"),
    (_out_of_order, "in order"),
    (_phantom, "no phantoms"),
    (_phantom_read, "no phantoms are read"),
    (_refused, "what failed for certain is not stored"),
    (_not_taken, "what is refused is not stored"),
    (_different, "replicas in sync agree"),
    (_shorter, "replicas in sync agree"),
    (_taken_back, "what was served is not taken back"),
    (_read_otherwise, "what was served stays"),
    (_hole, "offsets are dense"),
    (_deleted, "nothing is deleted that is to be kept"),
    (_epoch_falls, "epochs do not fall"),
    (_watermark_back, "the watermark does not go back"),
    (_later_epoch_behind, "the watermark of a later epoch is not behind"),
    (_told_too_much, "what was told to be committed is there"),
])  # fmt: skip
def test_a_history_that_cannot_be_is_refused(spoil: Spoil, rule: str) -> None:
    history, final = good()
    check(history, final)
    spoil(history, final)
    with pytest.raises(InvariantBroken) as broken:
        check(history, final)
    assert broken.value.rule == rule


def test_after_an_unclean_election_what_was_said_before_may_be_gone_and_nothing_else() -> None:
    history, final = good()
    history.elected_uncleanly(KEY, 2)
    _in_all_logs(final, Stored(0, 2, b"b"))  # the second was acknowledged by the leader that was elected so
    history.sends[b"b"].offset = 0
    history.reads = [Read(KEY, "c", 0, b"a", 1), Read(KEY, "c", 0, b"b", 2)]
    history.told = [Told(KEY, 1, 2, 30, 40), Told(KEY, 2, 1, 50, 60)]
    check(history, final)
    for spoil in (_lost_in_this_generation, _read_and_gone_in_this_generation, _told_and_gone_in_this_generation):
        with pytest.raises(InvariantBroken):
            check(*spoil())


def _lost_in_this_generation() -> tuple[ClusterHistory, FinalPartition]:
    history, final = good()
    history.elected_uncleanly(KEY, 1)
    _lost(history, final)
    return history, final


def _read_and_gone_in_this_generation() -> tuple[ClusterHistory, FinalPartition]:
    history, final = good()
    history.elected_uncleanly(KEY, 1)
    _taken_back(history, final)
    return history, final


def _told_and_gone_in_this_generation() -> tuple[ClusterHistory, FinalPartition]:
    history, final = good()
    history.elected_uncleanly(KEY, 1)
    _told_too_much(history, final)
    return history, final


def test_what_only_the_leader_had_to_have_may_be_gone_with_it() -> None:
    history, final = good()
    _lost(history, final)
    history.sends[b"b"].acks = Acks.LEADER
    final.leader_epoch = 3
    check(history, final)


def test_an_earlier_attempt_may_be_what_is_left_of_what_only_the_leader_had() -> None:
    history, final = good()
    history.sends[b"b"].acks = Acks.LEADER
    history.sends[b"b"].offset = 5
    history.sends[b"b"].leader_epoch = 3  # what is there is of epoch 2
    final.leader_epoch = 4
    check(history, final)
    history.sends[b"b"].leader_epoch = 2
    with pytest.raises(InvariantBroken, match="nowhere else"):
        check(history, final)


def test_what_retention_may_delete_may_be_gone() -> None:
    history, final = good()
    history.limited_topics[KEY[0]] = None
    _deleted(history, final)
    check(history, final)


def test_two_leaders_of_an_epoch_and_a_gap_are_refused() -> None:
    history = ClusterHistory()
    check_leader(history, KEY, 1, "n1#1")
    check_leader(history, KEY, 1, "n1#1")
    check_leader(history, KEY, 2, "n2#1")
    with pytest.raises(InvariantBroken, match="one leader an epoch"):
        check_leader(history, KEY, 1, "n1#2")
    first, second = Read(KEY, "c", 0, b"a", 1), Read(KEY, "c", 1, b"b", 1)
    check_next(history, None, first)
    check_next(history, first, second)
    for offset in (0, 2):
        with pytest.raises(InvariantBroken, match="no gaps"):
            check_next(history, first, Read(KEY, "c", offset, b"b", 1))
    history.starts_at(KEY, 2)
    check_next(history, first, Read(KEY, "c", 2, b"b", 1))
    with pytest.raises(InvariantBroken, match="no gaps"):
        check_next(history, second, first)
    history.elected_uncleanly(KEY, 2)
    check_next(history, second, Read(KEY, "c", 0, b"c", 2))
