"""Where a consumer goes on in a partition when what follows is not there any more."""

import pytest

from lograft.clients.consumer.reading.fetched_partition import Anchor, FetchedPartition
from lograft.clients.consumer.reading.record_run import Position
from lograft.clients.types import TopicPartition


def reading_at(offset: int) -> FetchedPartition:
    partition = FetchedPartition(TopicPartition("orders", 0), b"t" * 16, None)
    partition.seek(Position(offset))
    return partition


@pytest.mark.parametrize(("is_below_start", "expected"), [(True, 577), (False, 536)])
def test_who_is_behind_the_logs_start_goes_on_and_never_back(is_below_start: bool, expected: int) -> None:
    """Who deleted it may be dead when the start is asked for, and whoever leads then may have more (seed 103)."""
    partition = reading_at(577)
    partition.gone(Anchor.EARLIEST, is_below_start=is_below_start)
    assert partition.anchor is Anchor.EARLIEST
    partition.found(536)
    assert partition.position == partition.fetch_offset == expected


def test_who_seeks_the_beginning_gets_it_whatever_was_before() -> None:
    partition = reading_at(577)
    partition.gone(Anchor.EARLIEST, is_below_start=True)
    partition.seek_anchor(Anchor.EARLIEST)
    partition.found(3)
    assert partition.position == 3
