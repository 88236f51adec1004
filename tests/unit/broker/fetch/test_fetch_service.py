"""Committed records of many partitions, pushed as they come, within the client's credit."""

import pytest
from support.fetch_talk import PLENTY, add, fetching, seek
from support.log_services import Node, settle
from support.raft_nodes import virtual
from support.served_replicas import batch, values_of

from lograft.broker.fetch.fetch_service import FetchLimits

# -- what is pushed


@virtual
async def test_what_is_there_is_sent_from_the_offset_on_and_then_what_comes() -> None:
    node = Node()
    orders = node.lead()
    orders.append(batch("a", "b"), batch("c"), batch("d"))
    talk = await fetching(node)
    await talk.ask(add(3, offset=2, leader_epoch=5), credit_bytes=PLENTY)
    assert await talk.until(3, 2) == [b"c", b"d"]
    last = talk.data[3][-1]
    assert (last.next_offset, last.high_watermark, last.log_start) == (4, 4, 0)
    orders.append(batch("e"))
    assert await talk.until(3, 3) == [b"c", b"d", b"e"]
    assert talk.data[3][-1].next_offset == 5


@virtual
async def test_a_batch_that_begins_before_the_offset_is_sent_whole() -> None:
    node = Node()
    node.lead().append(batch("a", "b", "c"))
    talk = await fetching(node)
    await talk.ask(add(1, offset=2), credit_bytes=PLENTY)
    assert await talk.until(1, 3) == [b"a", b"b", b"c"]
    assert talk.data[1][-1].next_offset == 3


@virtual
async def test_nothing_that_is_not_committed_is_sent() -> None:
    node = Node()
    orders = node.lead()
    orders.is_held = True
    orders.append(batch("a"), batch("b"))
    talk = await fetching(node)
    await talk.ask(add(1), credit_bytes=PLENTY)
    await talk.take()
    await talk.silence(5)
    orders.commit(1)
    assert await talk.until(1, 1) == [b"a"]
    await talk.silence(5)
    orders.commit()
    assert await talk.until(1, 2) == [b"a", b"b"]


@virtual
async def test_an_add_is_answered_at_once_without_records_and_without_credit() -> None:
    node = Node()
    orders = node.lead()
    orders.append(batch("a"))
    talk = await fetching(node)
    await talk.ask(add(1, offset=1), add(2, offset=0))
    answers = [(each.handle, each.next_offset, each.high_watermark, each.batches) for each in await talk.take()]
    assert answers == [(1, 1, 1, b""), (2, 0, 1, b"")]
    await talk.silence(3)


@virtual
async def test_partitions_that_have_something_together_travel_together() -> None:
    node = Node()
    replicas = [node.lead(number) for number in range(100)]
    talk = await fetching(node)
    await talk.ask(*(add(number, number) for number in range(100)), credit_bytes=PLENTY)
    await talk.take()
    for number, replica in enumerate(replicas):
        replica.append(batch(str(number)))
    data = await talk.take()
    assert {each.handle: values_of(each.batches) for each in data} == {
        number: [str(number).encode()] for number in range(100)
    }


@virtual
async def test_waiting_readers_do_not_poll() -> None:
    node = Node()
    orders = node.lead()
    talk = await fetching(node)
    await talk.ask(add(1), credit_bytes=PLENTY)
    await settle(60)
    assert (len(orders.reads), len(orders.waiters)) == (0, 1)
    orders.append(batch("a"))
    await talk.until(1, 1)
    await settle(60)
    assert (len(orders.reads), len(orders.waiters)) == (1, 1)


@virtual
async def test_nothing_to_read_below_the_watermark_does_not_make_it_spin() -> None:
    node = Node()
    orders = node.lead()
    orders.high_watermark = orders.log_end = 10  # a hole, as far as `read` can tell
    talk = await fetching(node)
    await talk.ask(add(1), credit_bytes=PLENTY)
    await settle(60)
    assert len(orders.reads) == 1


# -- credit


@virtual
async def test_without_credit_nothing_is_sent_and_with_some_at_least_one_batch() -> None:
    node = Node()
    node.lead().append(*(batch(size=1000) for _ in range(5)))
    talk = await fetching(node)
    await talk.ask(add(1))
    await talk.take()
    await talk.silence(3)
    await talk.ask(credit_bytes=1)
    assert len(await talk.until(1, 1)) == 1
    await talk.silence(3)
    await talk.ask(credit_bytes=1)  # less than is owed
    await talk.silence(3)
    await talk.ask(credit_bytes=len(batch(size=1000)))
    assert len(await talk.until(1, 2)) == 2
    await talk.silence(3)


@virtual
async def test_credit_is_for_all_partitions_together() -> None:
    node = Node()
    size = len(batch(size=1000))
    for number in range(4):
        node.lead(number).append(*(batch(size=1000) for _ in range(50)))
    talk = await fetching(node)
    await talk.ask(*(add(number, number, max_bytes=size) for number in range(4)), credit_bytes=20 * size)
    while sum(len(talk.values(number)) for number in range(4)) < 20:
        await talk.take()
    await talk.silence(2)
    assert [len(talk.values(number)) for number in range(4)] == [5, 5, 5, 5]


@virtual
async def test_a_partition_far_behind_does_not_starve_another() -> None:
    node = Node()
    behind, live = node.lead(0), node.lead(1)
    behind.append(*(batch(size=100_000) for _ in range(100)))
    talk = await fetching(node, FetchLimits(message_bytes=200_000, partition_bytes=200_000))
    await talk.ask(add(0, 0), add(1, 1), credit_bytes=PLENTY)
    await talk.until(0, 5)
    live.append(batch("now"))
    await talk.until(1, 1)
    assert len(talk.values(0)) < 30
    assert len(await talk.until(0, 100)) == 100


# -- remove and seek


@virtual
async def test_a_seek_goes_on_elsewhere_and_tells_old_from_new() -> None:
    node = Node()
    orders = node.lead()
    orders.append(batch("a"), batch("b"), batch("c"))
    talk = await fetching(node)
    await talk.ask(add(1), credit_bytes=PLENTY)
    await talk.until(1, 3)
    assert {each.seek for each in talk.data.pop(1)} == {0}
    await talk.ask(seek=[seek(1, 1, number=7)])
    assert await talk.until(1, 2) == [b"b", b"c"]
    assert {each.seek for each in talk.data[1]} == {7}
    assert talk.data[1][0].next_offset == 1
    await settle()
    assert len(orders.waiters) == 1
    orders.append(batch("d"))
    assert await talk.until(1, 3) == [b"b", b"c", b"d"]


@virtual
async def test_what_was_read_before_a_seek_is_not_sent_after_it() -> None:
    node = Node()
    orders = node.lead()
    orders.append(batch("a"), batch("b"), batch("c"))
    orders.may_read.clear()
    talk = await fetching(node)
    await talk.ask(add(1), credit_bytes=PLENTY)
    await settle()
    await talk.ask(seek=[seek(1, 2, number=1)])
    await settle()
    orders.may_read.set()
    assert await talk.until(1, 1) == [b"c"]
    await talk.silence(2)


@virtual
async def test_what_failed_before_a_seek_does_not_end_what_comes_after() -> None:
    node = Node()
    orders = node.lead()
    orders.append(batch("a"), batch("b"), batch("c"))
    orders.may_read.clear()
    talk = await fetching(node)
    await talk.ask(add(1), credit_bytes=PLENTY)
    await settle()
    orders.log_start = 1  # what is being read is out of range by now
    await talk.ask(seek=[seek(1, 2, number=1)])
    await settle()
    orders.may_read.set()
    assert await talk.until(1, 1) == [b"c"]
    assert not any(each.HasField("error") for each in talk.data[1])


@pytest.mark.parametrize("is_reading", [False, True])
def test_a_partition_that_is_removed_is_sent_no_more(is_reading: bool) -> None:
    @virtual
    async def run() -> None:
        node = Node()
        orders, others = node.lead(0), node.lead(1)
        talk = await fetching(node)
        await talk.ask(add(1, 0), add(2, 1), credit_bytes=PLENTY)
        await talk.take()
        if is_reading:
            orders.may_read.clear()
            orders.append(batch("a"))
            await settle()
        await talk.ask(remove=[1])
        await settle()
        orders.may_read.set()
        assert orders.waiters == {}
        orders.append(batch("b"))
        await talk.silence(2)
        assert orders.waiters == {}
        others.append(batch("c"))
        assert await talk.until(2, 1) == [b"c"]

    run()


@virtual
async def test_what_is_not_there_can_be_removed_and_sought() -> None:
    node = Node()
    node.lead().append(batch("a"))
    talk = await fetching(node)
    await talk.ask(remove=[8], seek=[seek(9, 0, 1)], credit_bytes=PLENTY)
    await talk.ask(add(1))
    assert await talk.until(1, 1) == [b"a"]
