"""Groups whose partition an unclean election cut below the committed offset: they follow the log, and are told."""

import pytest
from support.fake_log_service import FakeCluster
from support.group_consumers import ORDERS_0, consumer_of, group, poll_until, store
from support.raft_nodes import virtual

from lograft.clients import errors
from lograft.clients.consumer.reading.record_run import Position, RecordRun
from lograft.clients.types import OffsetAndMetadata
from lograft.storage.batch.codec import Columns

LOST = [b"lost %d" % number for number in range(4)]
LATER = [b"later %d" % number for number in range(9)]


def cut(cluster: FakeCluster, end: int) -> None:
    """Elect a leader that has less, as only an unclean election may; it stores more than was lost."""
    log = cluster.log("orders")
    log.batches = [each for each in log.batches if each[0].next_offset <= end]
    cluster.move_leader("orders", 0, 2)
    store(cluster, "orders", 0, *LATER)


@virtual
async def test_the_member_that_read_what_is_lost_goes_back_and_commits_from_there() -> None:
    async with group((1,)) as (cluster, groups):
        store(cluster, "orders", 0, b"kept")
        store(cluster, "orders", 0, *LOST)
        async with consumer_of(cluster, auto_commit=False, max_poll_records=5) as consumer:
            await consumer.subscribe(["orders"])
            assert await poll_until(consumer, have=5) == [b"kept", *LOST]
            await consumer.commit()
            assert groups.offsets == {("orders", 0): 5}
            cut(cluster, 1)
            assert (await poll_until(consumer, have=3))[:3] == LATER[:3]
            assert consumer.metrics().truncations == 1
            await consumer.commit({ORDERS_0: 3})
            assert groups.commits[-1].may_lower
            assert groups.offsets == {("orders", 0): 3}


@pytest.mark.parametrize("commits_by_hand", [True, False])
@pytest.mark.parametrize("reads_at_once", [2, 500])
@virtual
async def test_the_next_member_learns_that_what_the_group_had_read_is_lost(
    commits_by_hand: bool, reads_at_once: int
) -> None:
    """However the offset was committed; though by now the log goes beyond it."""
    async with group((1,)) as (cluster, groups):
        store(cluster, "orders", 0, b"kept")
        store(cluster, "orders", 0, *LOST)
        async with consumer_of(cluster, auto_commit=False, max_poll_records=reads_at_once) as consumer:
            await consumer.subscribe(["orders"])
            await poll_until(consumer, have=4)
            await consumer.commit({ORDERS_0: 4} if commits_by_hand else None)
        committed = groups.offsets["orders", 0]
        assert committed >= 4
        cut(cluster, 1)
        assert cluster.log("orders").end > committed
        async with consumer_of(cluster, auto_offset_reset="none") as consumer:
            await consumer.subscribe(["orders"])
            with pytest.raises(errors.LogTruncated) as truncated:
                await poll_until(consumer, have=1)
            assert truncated.value.valid_end == 1
        async with consumer_of(cluster) as consumer:
            await consumer.subscribe(["orders"])
            assert await poll_until(consumer, have=9) == LATER
            assert consumer.metrics().truncations == 1


@virtual
async def test_an_epoch_that_the_caller_gives_is_committed_as_it_is() -> None:
    async with group((1,)) as (cluster, groups):
        store(cluster, "orders", 0, b"a", b"b")
        async with consumer_of(cluster, auto_commit=False) as consumer:
            await consumer.subscribe(["orders"])
            await poll_until(consumer, have=2)
            await consumer.commit({ORDERS_0: OffsetAndMetadata(2, "x", 7)})
            (committed,) = groups.committed.values()
            assert (committed.offset, committed.metadata, committed.leader_epoch) == (2, "x", 7)
            await consumer.commit({ORDERS_0: 99})
            (committed,) = groups.committed.values()
            assert committed.offset == 99
            assert not committed.HasField("leader_epoch"), "nobody knows what lies before an offset that was not read"


@pytest.mark.parametrize(("offset", "epoch"), [
    (3, None), (4, 1), (5, 2), (7, 2), (8, 3), (9, 3), (10, 3), (11, None),
])  # fmt: skip
def test_a_run_knows_the_epoch_before_each_of_its_offsets(offset: int, epoch: int | None) -> None:
    offsets = list(range(4, 10))
    columns = Columns(offsets, offsets, *([[None] * 6] * 3))  # type: ignore[arg-type]
    run = RecordRun(ORDERS_0, Position(4, 1), columns, Position(10, 3), [(4, 2), (7, 3)])
    assert run.epoch_before(offset) == epoch
