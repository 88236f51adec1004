"""The crash model of the simulated disk: what a power failure, a kill or a fault may leave, and what it may not."""

import errno
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lograft.chaos.world.crash import SimulatedCrash
from lograft.chaos.world.files import VirtualFiles
from lograft.chaos.world.power_loss import PAGE_BYTES, Change, Truncate, Write, survivors
from lograft.runtime.files import File, FileLocked, SyncFailed, read_whole, replace_file
from lograft.runtime.rng import Rng

SEEDS = range(200)
PATH = "/data/log"


def disk(seed: int) -> VirtualFiles:
    files = VirtualFiles(Rng(seed), cold_read_probability=0)
    files.make_directory("/data")
    files.sync_directory("")
    return files


def durable_file(files: VirtualFiles, content: bytes, path: str = PATH) -> File:
    file = files.create(path)
    file.write(0, [content])
    file.sync()
    files.sync_directory("/data")
    return file


def after_power_failure(run: Callable[[VirtualFiles], object], path: str = PATH) -> Counter[bytes | None]:
    """How often each content of `path` (None: no such file) was left after `run` and a power failure."""
    outcomes: Counter[bytes | None] = Counter()
    for seed in SEEDS:
        files = disk(seed)
        run(files)
        files.power_failure()
        outcomes[read_whole(files, path) if files.exists(path) else None] += 1
    return outcomes


# -- content


def test_synced_content_with_a_synced_name_always_survives() -> None:
    assert after_power_failure(lambda files: durable_file(files, b"safe")) == {b"safe": len(SEEDS)}


def test_synced_content_survives_whatever_unsynced_writes_do_behind_it() -> None:
    def run(files: VirtualFiles) -> None:
        file = durable_file(files, b"safe")
        file.write(4, [b"x" * 3 * PAGE_BYTES])

    outcomes = after_power_failure(run)
    assert all(content is not None and content.startswith(b"safe") for content in outcomes)


def test_unsynced_writes_are_lost_kept_torn_or_scattered() -> None:
    def run(files: VirtualFiles) -> None:
        file = durable_file(files, b"old ")
        file.write(4, [b"a" * PAGE_BYTES])
        file.write(4 + PAGE_BYTES, [b"b" * PAGE_BYTES])

    whole = b"old " + b"a" * PAGE_BYTES + b"b" * PAGE_BYTES
    outcomes = after_power_failure(run)
    assert outcomes[b"old "] > 0
    assert outcomes[whole] > 0
    others = [content for content in outcomes if content is not None and content not in (b"old ", whole)]
    torn = [content for content in others if whole.startswith(content)]
    scattered = [content for content in others if len(content) == len(whole) and b"\0" in content]
    assert torn
    assert scattered
    assert len(torn) + len(scattered) == len(others)


def test_a_page_that_did_not_survive_has_its_old_content() -> None:
    def run(files: VirtualFiles) -> None:
        file = durable_file(files, b"o" * 2 * PAGE_BYTES)
        file.write(0, [b"n" * 2 * PAGE_BYTES])

    outcomes = after_power_failure(run)
    assert outcomes[b"o" * PAGE_BYTES + b"n" * PAGE_BYTES] > 0
    assert all(content is not None and set(content) <= set(b"on") for content in outcomes)


def test_an_unsynced_truncation_happened_or_not() -> None:
    def run(files: VirtualFiles) -> None:
        durable_file(files, b"0123456789").truncate(4)

    assert set(after_power_failure(run)) == {b"0123", b"0123456789"}


@given(
    durable=st.binary(max_size=60),
    pending=st.lists(
        st.one_of(
            st.builds(Write, st.integers(0, 3 * PAGE_BYTES), st.binary(min_size=1, max_size=50)),
            st.builds(Truncate, st.integers(0, 3 * PAGE_BYTES)),
        ),
        max_size=6,
    ),
    seed=st.integers(0, 1000),
)
def test_survivors_invent_nothing(durable: bytes, pending: list[Change], seed: int) -> None:
    content = survivors(bytearray(durable), pending, Rng(seed))
    for position, byte in enumerate(content):
        possible = {0}
        if position < len(durable):
            possible.add(durable[position])
        for change in pending:
            if isinstance(change, Write) and 0 <= position - change.position < len(change.data):
                possible.add(change.data[position - change.position])
        assert byte in possible


def test_after_a_power_failure_what_is_left_is_durable() -> None:
    for seed in SEEDS:
        files = disk(seed)
        durable_file(files, b"old").write(3, [b"new"])
        files.power_failure()
        left = read_whole(files, PATH)
        files.power_failure()
        assert read_whole(files, PATH) == left


# -- names


def test_a_synced_file_is_lost_with_its_unsynced_name() -> None:
    def run(files: VirtualFiles) -> None:
        file = files.create(PATH)
        file.write(0, [b"synced"])
        file.sync()

    assert set(after_power_failure(run)) == {None, b"synced"}


def test_a_synced_name_may_have_lost_its_unsynced_content() -> None:
    def run(files: VirtualFiles) -> None:
        files.create(PATH).write(0, [b"unsynced"])
        files.sync_directory("/data")

    outcomes = after_power_failure(run)
    assert outcomes[None] == 0
    assert outcomes[b""] > 0
    assert outcomes[b"unsynced"] > 0


def test_an_unsynced_removal_may_be_undone_and_a_synced_one_is_not() -> None:
    def remove(files: VirtualFiles) -> None:
        durable_file(files, b"content")
        files.remove(PATH)

    def remove_and_sync(files: VirtualFiles) -> None:
        remove(files)
        files.sync_directory("/data")

    assert set(after_power_failure(remove)) == {None, b"content"}
    assert set(after_power_failure(remove_and_sync)) == {None}


def test_everything_in_a_directory_is_lost_with_its_unsynced_name() -> None:
    def run(files: VirtualFiles) -> None:
        files.make_directory("/data/topic")
        file = files.create("/data/topic/log")
        file.write(0, [b"synced"])
        file.sync()
        files.sync_directory("/data/topic")

    assert set(after_power_failure(run, "/data/topic/log")) == {None, b"synced"}


def test_changes_of_one_directory_survive_in_order() -> None:
    survived: Counter[tuple[str, ...]] = Counter()
    for seed in SEEDS:
        files = disk(seed)
        for name in "abcd":
            files.create(f"/data/{name}").close()
        files.power_failure()
        survived[tuple(files.list_directory("/data"))] += 1
    assert set(survived) == {(), ("a",), ("a", "b"), ("a", "b", "c"), ("a", "b", "c", "d")}


@pytest.mark.parametrize("target", ["/data/new", "/other/new"])
def test_a_rename_is_atomic_within_and_across_directories(target: str) -> None:
    found: Counter[tuple[bool, bytes]] = Counter()
    for seed in SEEDS:
        files = disk(seed)
        files.make_directory("/other")
        files.sync_directory("")
        durable_file(files, b"moved")
        replaced = files.create(target)
        replaced.write(0, [b"replaced"])
        replaced.sync()
        files.sync_directory(target.rpartition("/")[0])
        files.rename(PATH, target)
        files.power_failure()
        found[files.exists(PATH), read_whole(files, target)] += 1
    assert set(found) == {(True, b"replaced"), (False, b"moved")}


def test_syncing_one_side_of_a_rename_across_directories_makes_it_durable() -> None:
    for seed in SEEDS:
        files = disk(seed)
        files.make_directory("/other")
        files.sync_directory("")
        durable_file(files, b"moved")
        files.create("/other/before").close()
        files.rename(PATH, "/other/new")
        files.sync_directory("/data")
        files.power_failure()
        assert files.list_directory("/data") == []
        assert files.list_directory("/other") == ["before", "new"]


def test_replace_file_leaves_old_or_new_content_at_every_crash() -> None:
    last_call = 40
    outcomes: Counter[bytes] = Counter()
    for seed in range(20):
        for call in range(1, last_call):
            files = disk(seed)
            replace_file(files, PATH, b"old")
            files.crash_at(files.calls + call)
            try:
                replace_file(files, PATH, b"new")
                done = True
            except SimulatedCrash:
                done = False
            files.power_failure()
            content = read_whole(files, PATH)
            assert content in ((b"new",) if done else (b"old", b"new"))
            outcomes[content] += 1
            if done:
                break
    assert outcomes[b"old"] > 0
    assert outcomes[b"new"] > 0


# -- kill -9


def test_a_killed_process_leaves_all_it_wrote_but_nothing_more_durable() -> None:
    contents: Counter[bytes] = Counter()
    for seed in SEEDS:
        files = disk(seed)
        durable_file(files, b"old").write(3, [b"new"])
        files.process_crash()
        assert read_whole(files, PATH) == b"oldnew"
        files.power_failure()
        contents[read_whole(files, PATH)] += 1
    assert contents[b"old"] > 0


@pytest.mark.parametrize("crash", [VirtualFiles.process_crash, VirtualFiles.power_failure])
def test_handles_and_locks_do_not_outlive_their_process(crash: Callable[[VirtualFiles], None]) -> None:
    files = disk(1)
    file = durable_file(files, b"content")
    lock = files.lock(PATH)
    crash(files)
    for use in (
        lambda: file.read(0, 1),
        lambda: file.read_cached(0, 1),
        lambda: file.write(0, [b"x"]),
        lambda: file.truncate(0),
        file.sync,
        file.size,
    ):
        with pytest.raises(SimulatedCrash):
            use()
    file.close()
    held = files.lock(PATH)
    lock.release()
    with pytest.raises(FileLocked):
        files.lock(PATH)
    held.release()
    assert read_whole(files, PATH) == b"content"


# -- crash points


def story(files: VirtualFiles) -> None:
    file = files.create(PATH)
    file.write(0, [b"first"])
    file.sync()
    files.sync_directory("/data")
    file.write(5, [b"second"])
    files.sync_all([file])
    file.close()
    files.rename(PATH, "/data/renamed")


def test_calls_are_numbered_and_named() -> None:
    files = disk(1)
    story(files)
    assert files.calls == 10
    assert list(files.points.recent)[2:] == [
        "3 create log",
        "4 write log",
        "5 sync log",
        "6 sync_directory data",
        "7 write log",
        "8 sync log",
        "9 close log",
        "10 rename log renamed",
    ]


def test_a_crash_at_a_call_is_the_same_for_the_same_seed() -> None:
    def outcome(seed: int, call: int) -> tuple[str, list[str], list[bytes]]:
        files = disk(seed)
        files.crash_at(call)
        with pytest.raises(SimulatedCrash) as raised:
            story(files)
        files.power_failure()
        names = files.list_directory("/data")
        return str(raised.value), names, [read_whole(files, f"/data/{name}") for name in names]

    for call in range(3, 11):
        for seed in range(10):
            assert outcome(seed, call) == outcome(seed, call)
    assert len({str(outcome(seed, 7)) for seed in range(30)}) > 3


def test_a_crash_happens_before_in_the_middle_of_or_after_the_write() -> None:
    sizes: Counter[int] = Counter()
    for seed in SEEDS:
        files = disk(seed)
        file = durable_file(files, b"")
        files.crash_at(files.calls + 1)
        with pytest.raises(SimulatedCrash):
            file.write(0, [b"0123456789"])
        files.process_crash()
        sizes[files.size(PATH)] += 1
    assert sizes[0] > 0
    assert sizes[10] > 0
    assert sum(count for size, count in sizes.items() if 0 < size < 10) > 0


def test_after_a_crash_every_call_raises_until_it_is_applied_and_nothing_changes() -> None:
    files = disk(3)
    file = durable_file(files, b"content")
    told: list[str] = []
    files.on_crash(told.append)
    files.crash_at(files.calls + 1)
    with pytest.raises(SimulatedCrash):
        files.exists(PATH)
    assert files.crashed
    for use in (
        lambda: file.write(0, [b"x"]),
        lambda: files.remove(PATH),
        lambda: files.create("/data/new"),
        file.sync,
    ):
        with pytest.raises(SimulatedCrash):
            use()
    file.close()
    assert told == [f"{files.calls} exists log"]
    files.process_crash()
    assert not files.crashed
    assert files.list_directory("/data") == ["log"]
    assert read_whole(files, PATH) == b"content"


def test_crashes_come_with_the_given_probability() -> None:
    crashed = 0
    for seed in range(1000):
        files = disk(seed)
        files.crash_with(0.1)
        try:
            files.exists("/data")
        except SimulatedCrash:
            crashed += 1
    assert 60 < crashed < 140


# -- faults


def test_a_failed_sync_is_not_made_good_by_the_next() -> None:
    lost = 0
    for seed in SEEDS:
        files = disk(seed)
        file = durable_file(files, b"old ")
        file.write(4, [b"doomed "])
        files.fail_next_sync("log")
        with pytest.raises(SyncFailed, match="Input/output error") as raised:
            file.sync()
        assert raised.value.errno == errno.EIO
        assert file.read(0, 100) == b"old doomed "
        file.write(11, [b"later"])
        file.sync()
        assert file.read(0, 100) == b"old doomed later"
        files.power_failure()
        content = read_whole(files, PATH)
        assert content.startswith(b"old ")
        assert content.endswith(b"later")
        lost += content != b"old doomed later"
    assert lost > len(SEEDS) // 4


def test_a_failing_sync_is_chosen_by_path() -> None:
    files = disk(1)
    log, index = durable_file(files, b""), durable_file(files, b"", "/data/index")
    files.fail_next_sync("index")
    log.sync()
    with pytest.raises(OSError, match="Input/output"):
        files.sync_all([log, index])
    files.sync_all([log, index])
    files.fail_next_sync("/data")
    with pytest.raises(SyncFailed, match="Input/output"):
        files.sync_directory("/data")
    files.sync_directory("/data")


def test_a_full_disk_takes_what_fits_and_refuses_the_rest() -> None:
    files = disk(1)
    file = durable_file(files, b"12345")
    files.set_capacity(8)
    assert files.free_bytes("/data") == 3
    with pytest.raises(OSError, match="No space left") as raised:
        file.write(5, [b"abc", b"def"])
    assert raised.value.errno == errno.ENOSPC
    assert file.read(0, 100) == b"12345abc"
    file.write(0, [b"OVER"])
    file.truncate(2)
    file.write(2, [b"room"])
    assert file.read(0, 100) == b"OVroom"
    files.set_capacity(None)
    file.write(6, [b"x" * 100])


def test_failing_writes_fail_until_told_otherwise() -> None:
    files = disk(1)
    log, index = durable_file(files, b""), durable_file(files, b"", "/data/index")
    files.fail_writes("log")
    index.write(0, [b"fine"])
    for _ in range(3):
        with pytest.raises(OSError, match="Input/output"):
            log.write(0, [b"content"])
        assert b"content".startswith(log.read(0, 100))
    files.fail_writes(None)
    log.write(0, [b"content"])
    assert log.read(0, 100) == b"content"


def test_a_flipped_bit_is_seen_now_and_after_sync_and_power_failure() -> None:
    for synced in (False, True):
        files = disk(1)
        file = durable_file(files, b"")
        file.write(0, [b"AAAA"])
        if synced:
            file.sync()
        files.flip_bit(PATH, 2, 1)
        assert file.read(0, 4) == b"AACA"
        file.sync()
        files.power_failure()
        assert read_whole(files, PATH) == b"AACA"


def test_a_random_flip_changes_one_bit_of_a_matching_file() -> None:
    files = disk(5)
    assert files.flip_random_bit() is None
    durable_file(files, b"content")
    durable_file(files, b"another", "/data/index")
    assert files.flip_random_bit("none") is None
    flipped = files.flip_random_bit("index")
    assert flipped is not None
    path, byte, bit = flipped
    assert path == "/data/index"
    expected = bytearray(b"another")
    expected[byte] ^= 1 << bit
    assert read_whole(files, path) == expected
    assert read_whole(files, PATH) == b"content"


def test_cached_reads_are_sometimes_cold() -> None:
    files = VirtualFiles(Rng(1), cold_read_probability=0.3)
    file = files.create("/log")
    file.write(0, [b"content"])
    answers = Counter(file.read_cached(0, 7) for _ in range(300))
    assert set(answers) == {None, b"content"}
    assert 50 < answers[None] < 130
