"""What room there is on a disk, and who may use it."""

import asyncio

import pytest
from support.virtual_log import virtual

from lograft.storage.errors import DiskFull
from lograft.storage.state.disk_space import DEFAULT_RESERVE_BYTES, DiskSpace, default_reserve

RESERVE = 1000


def space(free_bytes: int) -> DiskSpace:
    made = DiskSpace("/data", RESERVE, 100_000)
    made.measured(free_bytes)
    return made


def state(one: DiskSpace) -> tuple[bool, bool]:
    return one.is_full, one.is_critical


@virtual
async def test_by_default_a_part_of_the_disk_is_kept_and_never_much() -> None:
    assert default_reserve(1000) == 50
    assert default_reserve(10**15) == DEFAULT_RESERVE_BYTES


@pytest.mark.parametrize(
    ("free_bytes", "expected"),
    [
        (RESERVE, (False, False)),
        (RESERVE - 1, (True, False)),
        (250, (True, False)),
        (249, (True, True)),
        (0, (True, True)),
    ],
)
@virtual
async def test_below_the_reserve_users_write_no_more_and_below_its_last_part_groups_do_not(
    free_bytes: int, expected: tuple[bool, bool]
) -> None:
    one = space(free_bytes)
    assert state(one) == expected
    for is_internal, is_refused in enumerate(expected):
        if is_refused:
            with pytest.raises(DiskFull, match="the disk of /data has only"):
                one.check(is_internal=bool(is_internal))
        else:
            one.check(is_internal=bool(is_internal))


@virtual
async def test_what_is_written_between_two_looks_counts() -> None:
    one = space(RESERVE + 10)
    one.took(10)
    assert state(one) == (False, False)
    one.took(1)
    assert state(one) == (True, False)
    one.took(10**9)
    assert (one.free_bytes, *state(one)) == (0, True, True)


@virtual
async def test_it_does_not_stop_and_go() -> None:
    one = space(RESERVE - 1)
    one.measured(RESERVE + 49)
    assert one.is_full
    one.measured(RESERVE + 50)
    assert not one.is_full


@virtual
async def test_a_disk_that_refuses_a_write_is_full_whatever_it_says() -> None:
    one = space(10**6)
    one.ran_out()
    assert state(one) == (True, True)
    assert not one.has_room_for(0)
    one.measured(10**6, is_stalled=True)
    assert state(one) == (True, True)
    one.measured(10**6)
    assert state(one) == (False, False)


@virtual
async def test_what_waits_for_room_goes_on_when_there_is_some() -> None:
    one = space(0)
    waits = {name: asyncio.ensure_future(one.until_room(is_internal=name == "group")) for name in ("user", "group")}
    await asyncio.sleep(1)
    assert not any(wait.done() for wait in waits.values())
    one.measured(500)
    await asyncio.sleep(1)
    assert {name: wait.done() for name, wait in waits.items()} == {"user": False, "group": True}
    one.measured(10**6)
    await waits["user"]


@virtual
async def test_a_compaction_leaves_what_the_metadata_need() -> None:
    one = space(1250)
    assert one.has_room_for(1000)
    assert not one.has_room_for(1001)


@virtual
async def test_until_it_is_measured_there_is_any_amount() -> None:
    one = DiskSpace()
    one.took(10**12)
    assert state(one) == (False, False)
