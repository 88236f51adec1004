"""What is held for clients: whoever reads nothing is cut off when others wait, and nothing stays held."""

import asyncio
from typing import Any

import pytest
from support.raft_nodes import virtual

from lograft.runtime.clock import LoopClock
from lograft.runtime.limits.buffer_budget import (
    FREE_BYTES,
    LARGE_BYTES,
    STALLED_MS,
    BufferBudget,
    StreamBudget,
    budgeted,
    default_budget_bytes,
)
from lograft.runtime.network import Status, StreamError

MEBIBYTE = 1024 * 1024
LIMIT = 16 * MEBIBYTE


class FakeStream:
    """`takes`: whether what is sent to it goes anywhere."""

    def __init__(self, peer: str, takes: bool = True, messages: list[bytes] | None = None) -> None:
        self.peer = peer
        self.takes = asyncio.Event()
        self.was_reset = asyncio.Event()
        self.messages = messages or []
        self.sent: list[int] = []
        if takes:
            self.takes.set()

    async def send(self, message: bytes) -> None:
        waits = [asyncio.ensure_future(self.takes.wait()), asyncio.ensure_future(self.was_reset.wait())]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        if self.was_reset.is_set():
            raise StreamError(Status.CANCELLED, "reset")
        self.sent.append(len(message))

    async def receive(self) -> bytes | None:
        return self.messages.pop(0) if self.messages else None

    async def half_close(self) -> None:
        return

    def reset(self) -> None:
        self.was_reset.set()


def budget() -> BufferBudget:
    return BufferBudget(LIMIT, LoopClock())


async def send(own: StreamBudget, stream: FakeStream, size: int) -> None:
    async with own.sending(await own.take(size, size)):
        await stream.send(bytes(size))


@virtual
async def test_who_reads_nothing_is_cut_off_when_others_wait() -> None:
    shared = budget()
    greedy = [FakeStream(f"greedy {number}", takes=False) for number in range(40)]
    stuck = []
    for stream in greedy:
        own = shared.open(stream)
        stuck.append(asyncio.ensure_future(send(own, stream, MEBIBYTE)))
    await asyncio.sleep(STALLED_MS / 1000 - 1)
    assert not any(stream.was_reset.is_set() for stream in greedy), "nobody is, before it has had its time"
    patient = FakeStream("patient")
    with shared.open(patient) as own:
        async with asyncio.timeout(3):
            claim = await own.take(FREE_BYTES, 4 * MEBIBYTE)  # before those that would take no less than a MiB
            async with own.sending(claim):
                await patient.send(bytes(claim.size_bytes))
    assert patient.sent[0] >= FREE_BYTES
    assert shared.cut_off > 0
    for task in stuck:
        task.cancel()
    await asyncio.wait(stuck)


@virtual
async def test_who_waits_looks_at_the_earliest_alone() -> None:
    """Thousands may wait, and thousands be sent to: each looks twice a second."""
    shared = budget()
    looked: list[int] = []

    class Counted(dict[StreamBudget, int]):
        def items(self) -> Any:
            for item in super().items():
                looked.append(1)
                yield item

    shared._sending = Counted()
    early, late = FakeStream("early"), [FakeStream(f"late {number}") for number in range(100)]
    shared.began_sending(shared.open(early))
    await asyncio.sleep(STALLED_MS / 1000)
    for stream in late:
        shared.began_sending(shared.open(stream))
    for _ in range(10):
        shared.cut_off_stalled()
    assert early.was_reset.is_set()
    assert not any(stream.was_reset.is_set() for stream in late)
    assert len(looked) <= 11


@virtual
async def test_nobody_is_cut_off_while_there_is_room_for_all() -> None:
    shared = budget()
    slow = FakeStream("slow", takes=False)
    with shared.open(slow) as own:
        sending = asyncio.ensure_future(send(own, slow, MEBIBYTE))
        other = FakeStream("other")
        with shared.open(other) as theirs:
            for _ in range(100):
                await send(theirs, other, MEBIBYTE)
                await asyncio.sleep(1)
        slow.takes.set()
        await sending
    assert (slow.sent, shared.cut_off) == ([MEBIBYTE], 0)
    assert (shared.bytes.held_bytes, shared.bytes.accounts) == (0, {})


@virtual
async def test_a_stream_that_dies_leaves_nothing_held_wherever_it_was() -> None:
    shared = budget()
    filling = shared.open(FakeStream("filling"))
    claim = filling.charge(LIMIT)
    stream = FakeStream("dying")
    own = shared.open(stream)
    waiting = asyncio.ensure_future(own.take(MEBIBYTE, MEBIBYTE))
    expecting = shared.open(FakeStream("expecting"))
    gate = asyncio.ensure_future(expecting.ready_to_receive(2 * MEBIBYTE))
    await asyncio.sleep(0.1)
    assert len(shared.bytes.waiting) == 2
    waiting.cancel()
    await asyncio.wait([waiting])
    own.close()
    filling.release(claim)
    await gate
    expecting.close()
    filling.close()
    await asyncio.sleep(1)
    assert (shared.bytes.held_bytes, shared.bytes.accounts, shared.bytes.waiting) == (0, {}, {})


@virtual
async def test_room_that_is_kept_for_a_message_is_there_for_others_if_none_comes() -> None:
    shared = budget()
    own = shared.open(FakeStream("idle"))
    await own.ready_to_receive(2 * MEBIBYTE)
    assert shared.bytes.held_bytes == 2 * MEBIBYTE
    await asyncio.sleep(1)
    assert shared.bytes.held_bytes == 0
    await own.ready_to_receive(2 * MEBIBYTE)
    claim = own.charge(3 * MEBIBYTE)
    assert shared.bytes.held_bytes == 3 * MEBIBYTE, "what came takes the place of what was expected"
    own.release(claim)
    own.close()
    await asyncio.sleep(1)
    assert shared.bytes.held_bytes == 0


@virtual
async def test_services_that_know_nothing_of_it_are_counted() -> None:
    shared = budget()
    seen: list[int] = []

    async def serve(stream: FakeStream) -> None:
        while (message := await stream.receive()) is not None:
            seen.append(shared.bytes.held_bytes)
            await stream.send(message)

    handler = budgeted({"m": serve}, shared)["m"]  # type: ignore[dict-item]
    stream = FakeStream("client", messages=[bytes(10), bytes(MEBIBYTE), bytes(FREE_BYTES)])
    await handler(stream)
    assert seen == [0, MEBIBYTE, 0]
    assert stream.sent == [10, MEBIBYTE, FREE_BYTES]
    assert (shared.bytes.held_bytes, shared.bytes.accounts) == (0, {})
    assert shared.bytes.counts.peak_bytes == MEBIBYTE, "what is answered is not held for the answer, too"


@virtual
async def test_small_answers_wait_for_nothing() -> None:
    shared = budget()
    shared.open(FakeStream("full")).charge(10 * LIMIT)

    async def serve(stream: FakeStream) -> None:
        await stream.send(bytes(FREE_BYTES))

    stream = FakeStream("client")
    await budgeted({"m": serve}, shared)["m"](stream)  # type: ignore[dict-item]
    assert stream.sent == [FREE_BYTES]


@pytest.mark.parametrize(
    ("memory", "expected"),
    [(256 * MEBIBYTE, 64 * MEBIBYTE), (2048 * MEBIBYTE, 256 * MEBIBYTE), (64 * 1024 * MEBIBYTE, 1024 * MEBIBYTE)],
)
def test_by_default_it_is_a_part_of_the_memory(memory: int, expected: int) -> None:
    assert default_budget_bytes(memory) == expected


# -- large messages


@virtual
async def test_of_large_messages_only_one_is_taken_beyond_the_limit() -> None:
    """What has come is in memory: forty of 60 MB, each of which waits for its turn, took more than a node had."""
    one = budget()
    with one.open(FakeStream("a")) as first, one.open(FakeStream("b")) as second:
        claim = first.charge(2 * LIMIT)
        with pytest.raises(StreamError, match=f"no memory for a message of {LARGE_BYTES} bytes") as refused:
            second.charge(LARGE_BYTES)
        assert refused.value.status is Status.UNAVAILABLE
        second.charge(LARGE_BYTES - 1)
        assert second.held_bytes == LARGE_BYTES - 1, "smaller ones are bounded by what is received at all"
        first.release(claim)
        second.charge(2 * LIMIT)
    assert one.bytes.held_bytes == 0
    assert not one.large
