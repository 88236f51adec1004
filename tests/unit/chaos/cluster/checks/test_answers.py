"""What a client cannot be told is written down: each check refuses its own."""

from typing import Any
from uuid import UUID

import pytest

from lograft.chaos.cluster.checks.answers import check_next, check_told_range
from lograft.chaos.cluster.checks.continuous import check_leader
from lograft.chaos.cluster.checks.history import ClusterHistory, PartitionKey, Read
from lograft.chaos.cluster.world.record_marks import headers_of, mark_for, mark_of, value_of
from lograft.chaos.harness.failures import InvariantBroken

KEY: PartitionKey = (UUID(int=1), 0)
STORED = mark_for("p", 0, b"a", is_deletion=False)
DELETED = mark_for("p", 1, b"b", is_deletion=True)


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


def test_a_consumer_of_a_compacted_partition_may_pass_over_offsets_but_not_go_back() -> None:
    history = ClusterHistory()
    history.compacted_topics[KEY[0]] = None
    first, second = Read(KEY, "c", 3, b"a", 1), Read(KEY, "c", 7, b"b", 1)
    check_next(history, None, first)
    check_next(history, first, second)
    with pytest.raises(InvariantBroken, match="no gaps"):
        check_next(history, second, first)


@pytest.mark.parametrize(("is_limited", "start", "end", "is_possible"), [
    (True, 2, 5, True), (True, 2, None, True), (False, 2, 5, False), (True, 0, 5, False), (True, None, 5, False),
    (True, 6, 5, False),
])  # fmt: skip
def test_only_retention_moves_the_start_that_a_client_is_told(
    is_limited: bool, start: int | None, end: int | None, is_possible: bool
) -> None:
    history = ClusterHistory()
    if is_limited:
        history.limited_topics[KEY[0]] = None
    if is_possible:
        check_told_range(history, KEY, start, end)
    else:
        with pytest.raises(InvariantBroken, match=r"is to be kept|is told"):
            check_told_range(history, KEY, start, end)


@pytest.mark.parametrize(("key", "value", "headers"), [
    (b"a", b"other", headers_of(STORED)),
    (b"b", value_of(STORED), headers_of(STORED)),
    (b"a", None, headers_of(STORED)),
    (b"b", b"x", headers_of(DELETED)),
    (b"a", value_of(STORED), []),
])  # fmt: skip
def test_a_record_that_is_not_as_it_was_sent_is_refused(key: bytes, value: bytes | None, headers: Any) -> None:
    assert mark_of(b"a", value_of(STORED, padding_bytes=3), headers_of(STORED)) == STORED
    with pytest.raises(InvariantBroken, match="records are as they were sent"):
        mark_of(key, value, headers)
