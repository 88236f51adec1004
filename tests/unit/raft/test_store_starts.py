"""A store counts how often it was opened; by that a copy of it is told from it."""

import asyncio
from collections.abc import Mapping
from uuid import UUID

import pytest
from support.virtual_log import virtual

from lograft.proto import raft_pb2 as pb
from lograft.proto.wire_format import CodecError
from lograft.raft.bootstrap.start_register import NotingEnded, OutdatedStore, StartRegister
from lograft.raft.core.configuration import Member
from lograft.raft.store.state_codec import decode_starts, encode_starts
from lograft.raft.store_starts import REMEMBERED, StoreStart, StoreStarts

OWN, OTHER = Member(1, UUID(int=1)), Member(2, UUID(int=2))


def opened(times: int, first_token: int = 100, before: StoreStarts | None = None) -> StoreStarts:
    starts = before or StoreStarts()
    for number in range(times):
        starts = starts.followed_by(first_token + number)
    return starts


def test_a_store_has_had_its_own_openings_and_no_others() -> None:
    starts = opened(3)
    assert starts.latest == StoreStart(3, 102)
    assert all(starts.has_had(StoreStart(number, 99 + number)) for number in (1, 2, 3))
    assert not any(starts.has_had(one) for one in (StoreStart(0, 99), StoreStart(3, 7), StoreStart(4, 103)))


def test_a_copy_never_gets_to_have_had_what_it_lacks_however_often_it_is_opened() -> None:
    copied = opened(3)
    seen = opened(1, 500, copied).latest  # the original went on
    for times in (1, 2, 50):
        assert not opened(times, 900, copied).has_had(seen)


def test_what_was_too_long_ago_to_be_known_is_not_taken_for_granted() -> None:
    starts = opened(REMEMBERED + 5)
    assert len(starts.tokens) == REMEMBERED
    assert starts.has_had(StoreStart(6, 105))
    assert not starts.has_had(StoreStart(5, 104))


def test_openings_come_back_from_bytes_as_they_were() -> None:
    for starts in (opened(1), opened(7), opened(REMEMBERED + 5)):
        assert decode_starts(encode_starts(starts)) == starts


@pytest.mark.parametrize(("count", "tokens"), [(0, b""), (1, b""), (1, bytes(8)), (3, bytes(7))])
def test_openings_that_cannot_be_are_refused(count: int, tokens: bytes) -> None:
    with pytest.raises(CodecError):
        decode_starts(pb.StoreStarts(count=count, tokens=tokens).SerializeToString())


# -- the register


class Store:
    """What a register needs of it; a note is durable once `is_quick`."""

    def __init__(self, noted: StoreStart | None = None) -> None:
        self.starts = opened(1)
        self.seen_starts: Mapping[Member, StoreStart] = {OTHER: noted} if noted is not None else {}
        self.notes: list[tuple[Member, StoreStart]] = []
        self.is_quick = asyncio.Event()
        self.is_quick.set()

    async def note_start(self, member: Member, start: StoreStart) -> None:
        await self.is_quick.wait()
        self.notes.append((member, start))


@virtual
async def test_an_opening_is_noted_before_its_store_is_admitted() -> None:
    store = Store()
    store.is_quick.clear()
    register = StartRegister(OWN, store)
    admitting = [asyncio.ensure_future(register.admit(OTHER, opened(2))) for _ in range(2)]
    await asyncio.sleep(5)
    assert not any(task.done() for task in admitting)
    store.is_quick.set()
    await asyncio.gather(*admitting)
    assert store.notes == [(OTHER, StoreStart(2, 101))]


@virtual
async def test_the_same_process_is_admitted_again_and_later_ones_are_noted() -> None:
    store = Store()
    register = StartRegister(OWN, store)
    for times in (1, 1, 2, 2, 5):
        await register.admit(OTHER, opened(times))
    assert [start.number for _, start in store.notes] == [1, 2, 5]


@virtual
async def test_a_copy_is_refused_even_after_this_node_was_started_anew() -> None:
    register = StartRegister(OWN, Store(noted=StoreStart(4, 777)))
    for times in (1, 2, 9):
        with pytest.raises(OutdatedStore, match="lograft quorum replace 2"):
            await register.admit(OTHER, opened(times, 900, opened(3)))
    assert "seen at its start 4" in register.refused[OTHER]
    await register.admit(OTHER, opened(2, before=opened(1, 777, opened(3))))  # the original is back
    assert not register.refused


@virtual
async def test_an_old_process_of_the_original_is_refused() -> None:
    """Its words were on the way for long, or it is a copy that was not opened since: who could tell?"""
    register = StartRegister(OWN, Store(noted=StoreStart(4, 103)))
    with pytest.raises(OutdatedStore):
        await register.admit(OTHER, opened(3))


@virtual
async def test_a_version_that_does_not_count_is_not_judged() -> None:
    store = Store(noted=StoreStart(4, 103))
    await StartRegister(OWN, store).admit(OTHER, None)
    assert store.notes == []


@virtual
async def test_nothing_is_noted_once_the_node_stops() -> None:
    store = Store()
    register = StartRegister(OWN, store)
    register.end()
    with pytest.raises(NotingEnded):
        await register.admit(OTHER, opened(1))
    assert store.notes == []
