"""Histories of compacted partitions that cannot be are written down: each check refuses its own."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from lograft.chaos.cluster.checks.history import (
    ClusterHistory,
    FinalPartition,
    PartitionKey,
    Read,
    ReplicaLog,
    SentRecord,
    Stored,
)
from lograft.chaos.cluster.checks.logs import LAST_READER, check_all, check_next
from lograft.chaos.cluster.world.record_marks import headers_of, mark_for, mark_of, record_key_of, value_of
from lograft.chaos.harness.failures import InvariantBroken
from lograft.chaos.harness.outcome import Outcome

KEY: PartitionKey = (UUID(int=1), 0)


Spoil = Callable[[ClusterHistory, FinalPartition], None]


A1, A2 = (mark_for("p", number, b"a", is_deletion=False) for number in (0, 1))


B1, C1 = (mark_for("p", number, key, is_deletion=False) for number, key in ((2, b"b"), (4, b"c")))


B2 = mark_for("p", 3, b"b", is_deletion=True)


STORED = [Stored(offset, 1, mark) for offset, mark in enumerate((A1, A2, B1, B2, C1))]


def good() -> tuple[ClusterHistory, FinalPartition]:
    """A key that was written again, one that was deleted, and another; cleaned on one replica, not on the other."""
    history = ClusterHistory()
    history.compacted_topics[KEY[0]] = None
    for stored in STORED:
        number = int(stored.value.split(b"/")[1])
        send = SentRecord(KEY, "p", number, stored.value, outcome=Outcome.OK, offset=stored.offset, leader_epoch=1)
        history.sends[stored.value] = send
    check_and_note(history, (1, A2), (4, C1))
    return history, FinalPartition(1, {1: log(1, 4), 2: log(0, 1, 2, 3, 4)})


def log(*offsets: int, start: int = 0) -> ReplicaLog:
    return ReplicaLog(start, 5, [STORED[offset] for offset in offsets])


def check_and_note(history: ClusterHistory, *found: tuple[int, bytes]) -> None:
    """What a consumer of all of it got."""
    history.reads.clear()
    history.gaps.clear()
    before = None
    for offset, mark in found:
        read = Read(KEY, LAST_READER, offset, mark, 1)
        check_next(history, before, read)
        history.reads.append(read)
        before = read


def _both(final: FinalPartition, *offsets: int) -> None:
    final.logs = {1: log(*offsets), 2: log(*offsets)}


def _latest_is_gone(history: ClusterHistory, final: FinalPartition) -> None:
    _both(final, 0, 4)


def _latest_is_gone_on_one(history: ClusterHistory, final: FinalPartition) -> None:
    final.logs[1] = log(0, 4)


def _deleted_is_back(history: ClusterHistory, final: FinalPartition) -> None:
    _both(final, 1, 2, 4)


def _deleted_is_back_on_one(history: ClusterHistory, final: FinalPartition) -> None:
    final.logs[1] = log(1, 2, 4)


def _only_one_of_its_key(history: ClusterHistory, final: FinalPartition) -> None:
    history.reads.clear()
    _both(final, 1)


def _something_else(history: ClusterHistory, final: FinalPartition) -> None:
    final.logs[1] = ReplicaLog(0, 5, [Stored(1, 1, A1), STORED[4]])


def _shorter(history: ClusterHistory, final: FinalPartition) -> None:
    final.logs[1] = ReplicaLog(0, 4, [STORED[1]])


def _falling(history: ClusterHistory, final: FinalPartition) -> None:
    final.logs = {1: ReplicaLog(0, 5, [STORED[4], STORED[1]])}


def _not_read(history: ClusterHistory, final: FinalPartition) -> None:
    check_and_note(history, (0, A1), (4, C1))


def _not_read_to_the_end(history: ClusterHistory, final: FinalPartition) -> None:
    check_and_note(history, (1, A2))


@pytest.mark.parametrize(("spoil", "rule"), [
    (_latest_is_gone, "acknowledged is at its offset"),
    (_latest_is_gone_on_one, "replicas in sync agree on keys"),
    (_deleted_is_back, "deleted stays deleted"),
    (_deleted_is_back_on_one, "replicas in sync agree on keys"),
    (_only_one_of_its_key, "acknowledged is at its offset"),
    (_something_else, "replicas in sync agree"),
    (_shorter, "replicas in sync agree"),
    (_falling, "offsets rise"),
    (_not_read, "no gaps"),
    (_not_read_to_the_end, "readers learn the latest of each key"),
])  # fmt: skip
def test_a_history_that_cannot_be_is_refused(spoil: Spoil, rule: str) -> None:
    history, final = good()
    check_all(history, {KEY: final})
    spoil(history, final)
    with pytest.raises(InvariantBroken) as broken:
        check_all(history, {KEY: final})
    assert broken.value.rule == rule


def test_what_superseded_a_record_may_be_deleted_by_retention() -> None:
    history, final = good()
    history.limited_topics[KEY[0]] = None
    check_and_note(history, (1, A2), (4, C1))
    final.logs = {1: log(4, start=4), 2: log(4, start=4)}
    check_all(history, {KEY: final})


@pytest.mark.parametrize(("key", "value", "headers"), [
    (b"a", b"other", headers_of(A1)),
    (b"b", value_of(A1), headers_of(A1)),
    (b"a", None, headers_of(A1)),
    (b"b", b"x", headers_of(B2)),
    (b"a", value_of(A1), []),
])  # fmt: skip
def test_a_record_that_is_not_as_it_was_sent_is_refused(key: bytes, value: bytes | None, headers: Any) -> None:
    assert mark_of(record_key_of(A1), value_of(A1, padding_bytes=3), headers_of(A1)) == A1
    with pytest.raises(InvariantBroken, match="records are as they were sent"):
        mark_of(key, value, headers)
