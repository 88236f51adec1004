"""The ordered disk writer: what is performed together, what is reported when, and what a failure ends."""

import asyncio
import errno

import pytest
from support.virtual_log import ROOT, HandWorker, HandWorkers, Machine, virtual

from lograft.runtime.disk.disk_writer import AppendFile, DiskFailed, DiskWriter
from lograft.runtime.files import SyncFailed


class Observer:
    """Notes what it is told: (written, synced) after each step forward, and failures."""

    def __init__(self) -> None:
        self.progress: list[tuple[int, int]] = []
        self.failures: list[DiskFailed] = []

    def on_progress(self, file: AppendFile) -> None:
        self.progress.append((file.written, file.synced))

    def on_disk_failed(self, error: DiskFailed) -> None:
        self.failures.append(error)


class Bench:
    """A writer whose disk moves when told to."""

    def __init__(self, max_queued_bytes: int = 1000) -> None:
        self.machine = Machine()
        self.files = self.machine.files
        workers = HandWorkers()
        self.writer = DiskWriter(self.files, workers, ROOT, max_queued_bytes)
        self.worker: HandWorker = workers.worker
        self.observer = Observer()

    def file(self, name: str = "a", observer: Observer | None = None) -> AppendFile:
        """A new file, already made."""
        made = self.writer.create(f"{ROOT}/{name}", observer or self.observer)
        self.worker.step()
        self.machine.points.names.clear()
        return made

    def calls(self) -> list[str]:
        return self.machine.points.names

    def content(self, name: str = "a") -> bytes:
        return bytes(self.files._tree.file(f"{ROOT}/{name}").content)


@virtual
async def test_appends_return_positions_at_once_and_reach_the_file_in_order() -> None:
    bench = Bench()
    file = bench.file()
    assert [bench.writer.append(file, [part], sync=False) for part in (b"one", b"two!", b"3")] == [0, 3, 7]
    assert (file.appended, file.written, file.synced) == (8, 0, 0)
    bench.worker.step()
    assert bench.content() == b"onetwo!3"
    assert (file.written, file.synced) == (8, 0)


@virtual
async def test_what_has_queued_up_is_one_write_and_one_sync_for_each_file() -> None:
    bench = Bench()
    a, b = bench.file("a"), bench.file("b")
    bench.machine.points.names.clear()
    for _ in range(10):
        bench.writer.append(a, [b"x", b"y"], sync=True)
        bench.writer.append(b, [b"z"], sync=True)
    bench.worker.step()
    assert sorted(bench.calls()) == ["sync a", "sync b", "write a", "write b"]
    assert (a.synced, b.synced) == (20, 10)


@virtual
async def test_all_is_written_before_anything_is_synced() -> None:
    bench = Bench()
    a, b = bench.file("a"), bench.file("b")
    bench.machine.points.names.clear()
    bench.writer.append(a, [b"x"], sync=True)
    bench.writer.append(b, [b"y"], sync=True)
    bench.worker.step()
    assert [name.split()[0] for name in bench.calls()] == ["write", "write", "sync", "sync"]


@virtual
async def test_no_fsync_that_nobody_asked_for() -> None:
    bench = Bench()
    file = bench.file()
    bench.writer.append(file, [b"x"], sync=False)
    bench.worker.step()
    assert bench.calls() == ["write a"]
    assert (file.written, file.synced) == (1, 0)
    bench.writer.sync(file)
    bench.worker.step()
    assert bench.calls() == ["write a", "sync a"]
    assert (file.written, file.synced) == (1, 1)


@virtual
async def test_an_fsync_covers_what_was_appended_before_it_without_one() -> None:
    bench = Bench()
    file = bench.file()
    bench.writer.append(file, [b"12"], sync=False)
    bench.writer.append(file, [b"34"], sync=True)
    bench.worker.step()
    assert file.synced == 4


@virtual
async def test_what_is_written_behind_an_fsync_of_the_same_round_does_not_count_as_synced() -> None:
    bench = Bench()
    file = bench.file()
    bench.writer.append(file, [b"12"], sync=True)
    bench.writer.enqueue(lambda: None)
    bench.writer.append(file, [b"34"], sync=False)
    bench.worker.step()
    assert (file.written, file.synced) == (4, 2)


@virtual
async def test_progress_becomes_known_only_when_the_loop_is_told() -> None:
    bench = Bench()
    file = bench.file()
    bench.observer.progress.clear()
    bench.writer.append(file, [b"x"], sync=True)
    bench.worker.perform()
    assert (file.written, file.synced, bench.observer.progress) == (0, 0, [])
    bench.worker.report()
    assert bench.observer.progress == [(1, 1)]


@virtual
async def test_a_call_happens_after_what_was_asked_before_it_and_before_what_is_asked_later() -> None:
    bench = Bench()
    file = bench.file()
    seen: list[bytes] = []
    bench.writer.append(file, [b"before"], sync=True)
    done = bench.writer.call(lambda: seen.append(bench.content()))
    bench.writer.append(file, [b"after"], sync=True)
    bench.worker.step()
    await done
    assert seen == [b"before"]
    assert [name.split()[0] for name in bench.calls()] == ["write", "sync", "write", "sync"]


@virtual
async def test_a_new_files_name_is_durable_before_anything_in_it_counts() -> None:
    bench = Bench()
    file = bench.writer.create(f"{ROOT}/new", bench.observer)
    bench.writer.append(file, [b"x"], sync=True)
    bench.machine.points.names.clear()
    bench.worker.step()
    assert bench.calls() == ["create new", "sync_directory data", "write new", "sync new"]
    bench.files.power_failure()
    assert bench.content("new") == b"x"


@virtual
async def test_an_adopted_file_goes_on_at_its_end() -> None:
    bench = Bench()
    handle = bench.files.create(f"{ROOT}/old")
    handle.write(0, [b"there"])
    file = bench.writer.adopt(handle, 5, bench.observer)
    assert (file.appended, file.written, file.synced) == (5, 5, 5)
    assert bench.writer.append(file, [b"!"], sync=True) == 5
    bench.worker.step()
    assert bench.content("old") == b"there!"


@virtual
async def test_a_released_file_still_gets_what_was_queued() -> None:
    bench = Bench()
    file = bench.file()
    bench.writer.append(file, [b"last"], sync=True)
    bench.writer.release(file)
    bench.worker.step()
    assert bench.content() == b"last"
    assert file.synced == 4


# -- truncation


@virtual
async def test_a_cut_goes_behind_queued_writes_and_is_durable_when_answered() -> None:
    bench = Bench()
    file = bench.file()
    bench.writer.append(file, [b"0123456789"], sync=True)
    done = bench.writer.truncate(file, 4)
    assert bench.writer.append(file, [b"new"], sync=True) == 4
    bench.worker.step()
    await done
    assert bench.content() == b"0123new"
    bench.files.power_failure()
    assert bench.content() == b"0123new"
    assert (file.written, file.synced) == (7, 7)


@virtual
async def test_a_completion_from_before_a_cut_says_nothing() -> None:
    """Else bytes 4 to 10 of the old life would count as written and synced in the new one."""
    bench = Bench()
    file = bench.file()
    bench.writer.append(file, [b"0123456789"], sync=True)
    bench.worker.perform()  # done by the disk, not yet known
    bench.writer.truncate(file, 4)
    bench.writer.append(file, [b"abcdef"], sync=True)
    bench.worker.report()
    assert (file.written, file.synced) == (0, 0)
    bench.worker.step()
    assert (file.written, file.synced) == (10, 10)
    assert bench.content() == b"0123abcdef"


@virtual
async def test_two_cuts_in_one_round_count_as_the_second() -> None:
    bench = Bench()
    file = bench.file()
    bench.writer.append(file, [b"0123456789"], sync=True)
    first, second = bench.writer.truncate(file, 8), bench.writer.truncate(file, 2)
    bench.worker.step()
    await asyncio.gather(first, second)
    assert (bench.content(), file.written, file.synced) == (b"01", 2, 2)


# -- failure


async def failed(bench: Bench, file: AppendFile) -> DiskFailed:
    """Let the fsync of an append fail."""
    bench.files.fail_next_sync("/a")
    bench.writer.append(file, [b"lost"], sync=True)
    bench.worker.step()
    assert bench.writer.failure is not None
    return bench.writer.failure


@virtual
async def test_a_failed_fsync_is_told_to_every_open_file_and_named() -> None:
    bench = Bench()
    other = Observer()
    file = bench.file("a")
    bench.file("b", other)
    error = await failed(bench, file)
    assert bench.observer.failures == other.failures == [error]
    assert error.path == f"{ROOT}/a"
    assert error.cause.errno == errno.EIO
    assert (file.written, file.synced) == (0, 0)


@virtual
async def test_a_released_file_is_not_told() -> None:
    bench = Bench()
    other = Observer()
    file = bench.file("a")
    bench.writer.release(bench.file("b", other))
    await failed(bench, file)
    assert other.failures == []


@virtual
async def test_nothing_is_done_after_a_failure_not_even_a_successful_fsync() -> None:
    """The kernel calls the next fsync a success though it dropped the data."""
    bench = Bench()
    file = bench.file()
    bench.files.fail_next_sync("/a")
    bench.writer.append(file, [b"lost"], sync=True)
    bench.worker.perform()  # failed, but the loop does not know
    bench.writer.append(file, [b"more"], sync=True)
    bench.writer.sync(file)
    call = bench.writer.call(lambda: "done")
    bench.machine.points.names.clear()
    bench.worker.perform()
    assert bench.calls() == []
    bench.worker.report()
    bench.worker.report()
    assert (file.written, file.synced) == (0, 0)
    with pytest.raises(DiskFailed):
        await call


@virtual
async def test_everything_asked_after_a_failure_is_refused() -> None:
    bench = Bench()
    file = bench.file()
    error = await failed(bench, file)
    for ask in (
        lambda: bench.writer.append(file, [b"x"], sync=False),
        lambda: bench.writer.sync(file),
        lambda: bench.writer.truncate(file, 0),
        lambda: bench.writer.call(lambda: None),
        lambda: bench.writer.enqueue(lambda: None),
        lambda: bench.writer.create(f"{ROOT}/c", bench.observer),
    ):
        with pytest.raises(DiskFailed) as refused:
            ask()
        assert refused.value is error
    assert file.appended == 4
    bench.writer.release(file)  # giving back is always possible
    await bench.writer.close()


@virtual
async def test_no_part_of_a_failed_round_is_reported_but_answers_given_before_it() -> None:
    bench = Bench()
    a, b = bench.file("a"), bench.file("b")
    bench.writer.append(b, [b"fine"], sync=True)
    before = bench.writer.call(lambda: "before")
    bench.files.fail_next_sync("/a")
    bench.writer.append(a, [b"lost"], sync=True)
    after = bench.writer.call(lambda: "after")
    cut = bench.writer.truncate(b, 1)
    bench.worker.step()
    assert await before == "before"
    for answer in (after, cut):
        with pytest.raises(DiskFailed):
            await answer
    assert (a.written, b.written, b.synced) == (0, 0, 0)


@pytest.mark.parametrize("kind", ["write", "create", "truncate"])
@virtual
async def test_any_failed_operation_ends_writing(kind: str) -> None:
    bench = Bench()
    file = bench.file()
    bench.writer.append(file, [b"0123"], sync=True)
    bench.worker.step()
    match kind:
        case "write":
            bench.files.fail_writes("/a")
            bench.writer.append(file, [b"x"], sync=False)
        case "create":
            bench.files.fail_next_sync(ROOT)
            bench.writer.create(f"{ROOT}/c", Observer())
        case "truncate":
            bench.files.fail_next_sync("/a")
            answer = bench.writer.truncate(file, 2)
            answer.add_done_callback(lambda done: done.exception())
    bench.worker.step()
    assert bench.writer.failure is not None
    assert bench.writer.failure.cause.errno == errno.EIO
    assert len(bench.observer.failures) == 1


@virtual
async def test_a_failure_outside_the_queue_ends_writing_too() -> None:
    bench = Bench()
    bench.file()
    failing = asyncio.ensure_future(bench.writer.fail(f"{ROOT}/a", OSError(errno.EIO, "broken")))
    await asyncio.sleep(0)
    bench.worker.step()
    with pytest.raises(DiskFailed, match="broken"):
        await failing
    assert len(bench.observer.failures) == 1


@virtual
async def test_a_failure_outside_the_queue_names_the_file() -> None:
    bench = Bench()
    failing = asyncio.ensure_future(bench.writer.fail(f"{ROOT}/a", OSError(errno.EIO, "broken")))
    await asyncio.sleep(0)
    bench.worker.step()
    with pytest.raises(DiskFailed) as error:
        await failing
    assert error.value.path == f"{ROOT}/a"


# -- room


@virtual
async def test_who_appends_much_waits_until_the_queue_is_below_its_limit() -> None:
    bench = Bench(max_queued_bytes=100)
    file = bench.file()
    bench.writer.append(file, [b"x" * 100], sync=False)
    await bench.writer.room()  # at the limit is not above it
    bench.writer.append(file, [b"x"], sync=False)
    waiting = [asyncio.ensure_future(bench.writer.room()) for _ in range(3)]
    await asyncio.sleep(0)
    assert not any(each.done() for each in waiting)
    waiting[0].cancel()
    bench.worker.step()
    assert bench.writer.queued_bytes == 0
    await asyncio.gather(*waiting[1:])


@virtual
async def test_a_failure_lets_go_of_who_waits_for_room() -> None:
    bench = Bench(max_queued_bytes=1)
    file = bench.file()
    bench.files.fail_writes("/a")
    bench.writer.append(file, [b"xyz"], sync=False)
    waiting = asyncio.ensure_future(bench.writer.room())
    await asyncio.sleep(0)
    bench.worker.step()
    await waiting
    assert bench.writer.queued_bytes == 0


@virtual
async def test_a_cancelled_caller_is_no_obstacle() -> None:
    bench = Bench()
    call = asyncio.ensure_future(bench.writer.call(lambda: None))
    call.cancel()
    bench.worker.step()
    assert bench.writer.failure is None


@virtual
async def test_closing_waits_for_all_that_is_queued() -> None:
    machine = Machine(slowdown=50)
    writer = machine.writer
    observer = Observer()
    file = writer.create(f"{ROOT}/a", observer)
    for _ in range(20):
        writer.append(file, [b"0123456789"], sync=True)
    await writer.close()
    assert file.synced == 200
    machine.files.power_failure()
    assert machine.files.size(f"{ROOT}/a") == 200


# -- a full disk


def filled(bench: Bench, room_bytes: int) -> None:
    bench.files.set_capacity(bench.files.used_bytes() + room_bytes)


@virtual
async def test_on_a_full_disk_all_waits_in_its_order_and_goes_on_when_there_is_room() -> None:
    bench = Bench()
    a, b = bench.file("a"), bench.file("b")
    refused: list[bool] = []
    bench.writer.on_refused = lambda: refused.append(bench.writer.is_stalled)
    filled(bench, 9)
    before = bench.writer.call(lambda: bench.content("a"))
    bench.writer.append(a, [b"first"], sync=True)
    between = bench.writer.call(lambda: bench.content("a"))
    bench.writer.append(a, [b"second"], sync=True)
    bench.writer.append(b, [b"other"], sync=True)
    after = bench.writer.call(lambda: (bench.content("a"), bench.content("b")))
    bench.worker.step()
    assert (await before, await between) == (b"", b"first")
    assert (a.written, a.synced, b.written) == (5, 5, 0)
    assert bench.content() == b"firstseco", "torn, until it is written again"
    assert not after.done()
    assert refused == [True]
    cut = bench.writer.truncate(a, 7)
    bench.worker.step()
    assert not cut.done(), "nothing overtakes what waits"
    assert bench.writer.failure is None
    bench.files.set_capacity(None)
    bench.writer.retry()
    bench.worker.step()
    assert await after == (b"firstsecond", b"other")
    await cut
    assert (bench.content(), a.synced, b.synced) == (b"firstse", 7, 5)
    assert (bench.writer.is_stalled, bench.writer.queued_bytes, bench.observer.failures) == (False, 0, [])


@virtual
async def test_a_full_disk_is_tried_again_only_when_asked_for_or_when_more_comes() -> None:
    bench = Bench()
    file = bench.file()
    filled(bench, 2)
    bench.writer.append(file, [b"abcd"], sync=False)
    bench.worker.step()
    assert (bench.content(), bench.writer.is_stalled) == (b"ab", True)
    bench.writer.retry()
    bench.worker.step()
    assert (file.written, bench.writer.is_stalled) == (0, True)
    bench.files.set_capacity(None)
    bench.writer.append(file, [b"ef"], sync=False)
    bench.worker.step()
    assert (bench.content(), file.written, bench.writer.is_stalled) == (b"abcdef", 6, False)


@virtual
async def test_nobody_waits_for_room_in_the_queue_of_a_full_disk() -> None:
    """What may not be appended is refused elsewhere: who waits here would not even hear of that."""
    bench = Bench(max_queued_bytes=3)
    file = bench.file()
    filled(bench, 0)
    bench.writer.append(file, [b"abcd"], sync=False)
    waiting = asyncio.ensure_future(bench.writer.room())
    await asyncio.sleep(0)
    assert not waiting.done()
    bench.worker.step()
    await waiting
    await bench.writer.room()


@pytest.mark.parametrize("is_stalled_before", [True, False])
@virtual
async def test_who_closes_does_not_wait_for_room(is_stalled_before: bool) -> None:
    bench = Bench()
    file = bench.file()
    filled(bench, 0)
    bench.writer.append(file, [b"abcd"], sync=False)
    call = bench.writer.call(lambda: None)
    if is_stalled_before:
        bench.worker.step()
    bench.writer.stop_waiting()
    bench.worker.step()
    with pytest.raises(DiskFailed, match="No space"):
        await call
    assert bench.observer.failures == [], "the directory has not failed"
    with pytest.raises(DiskFailed):
        bench.writer.append(file, [b"x"], sync=False)


@virtual
async def test_a_sync_that_fails_for_want_of_room_is_a_failed_sync() -> None:
    """What it did not take may be gone: to write it again would not help."""

    class Thin:
        def __getattr__(self, name: str) -> object:
            return getattr(bench.files, name)

        def sync_all(self, files: object) -> None:
            raise SyncFailed(errno.ENOSPC, "No space left on device")

    bench = Bench()
    file = bench.file()
    bench.writer.files._files = Thin()  # type: ignore[assignment]
    bench.writer.append(file, [b"abcd"], sync=True)
    bench.worker.step()
    assert bench.writer.failure is not None
    assert len(bench.observer.failures) == 1
