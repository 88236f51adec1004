"""What every file system behind `Files` does: the machine's own, with and without faults on demand, and the simulated
one pass the same tests."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lograft.chaos.world.files import VirtualFiles
from lograft.runtime.disk.os_files import OsFiles
from lograft.runtime.faults.faulty_files import FaultyFiles
from lograft.runtime.faults.settings import FaultSwitch
from lograft.runtime.files import FileLocked, Files, read_whole, replace_file
from lograft.runtime.rng import Rng


class Place:
    """A file system and a directory in it to play in."""

    def __init__(self, files: Files, base: str) -> None:
        self.files = files
        self.base = base

    def path(self, name: str) -> str:
        return f"{self.base}/{name}"

    def write(self, name: str, content: bytes) -> None:
        file = self.files.create(self.path(name))
        file.write(0, [content])
        file.close()

    def content(self, name: str) -> bytes:
        return read_whole(self.files, self.path(name))


@pytest.fixture(params=["os", "faulty", "virtual"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "os":
        files = OsFiles()
        yield Place(files, str(tmp_path))
        files.close()
    elif request.param == "faulty":
        for name in ("data", "faults"):
            (tmp_path / name).mkdir()
        faulty = FaultyFiles(FaultSwitch(str(tmp_path / "faults")))
        yield Place(faulty, str(tmp_path / "data"))
        faulty.close()
    else:
        virtual = VirtualFiles(Rng(1))
        virtual.make_directory("/data")
        yield Place(virtual, "/data")


def test_what_was_written_is_read_back_at_any_position(place: Place) -> None:
    file = place.files.create(place.path("a"))
    file.write(0, [b"hello ", bytearray(b"wide "), memoryview(b"world")])
    assert file.read(0, 16) == b"hello wide world"
    assert file.read(6, 4) == b"wide"
    assert file.size() == 16
    assert file.path == place.path("a")
    file.close()


def test_a_write_may_overwrite_and_extend(place: Place) -> None:
    file = place.files.create(place.path("a"))
    file.write(0, [b"abcdef"])
    file.write(2, [b"XY"])
    file.write(5, [b"!!!"])
    assert file.read(0, 100) == b"abXYe!!!"
    file.close()


def test_a_hole_reads_as_zeros(place: Place) -> None:
    file = place.files.create(place.path("a"))
    file.write(10_000, [b"end"])
    assert file.size() == 10_003
    assert file.read(0, 20_000) == bytes(10_000) + b"end"
    file.close()


def test_a_read_is_short_only_where_the_file_ends(place: Place) -> None:
    file = place.files.create(place.path("a"))
    file.write(0, [b"0123456789"])
    assert file.read(8, 5) == b"89"
    assert file.read(10, 5) == b""
    assert file.read(1000, 5) == b""
    assert file.read(3, 0) == b""
    file.close()


@pytest.mark.parametrize("size", [0, 1, 100, 32 * 1024, 200_000, 300_000])
def test_a_cached_read_gives_what_a_read_gives_or_nothing(place: Place, size: int) -> None:
    file = place.files.create(place.path("a"))
    file.write(0, [bytes(range(250)) * 1000])
    for position in (0, 1, 4096, 249_999, 250_000, 400_000):
        assert file.read_cached(position, size) in (None, file.read(position, size))
    file.close()


def test_empty_writes_change_nothing(place: Place) -> None:
    file = place.files.create(place.path("a"))
    file.write(0, [])
    file.write(500, [b""])
    file.write(500, [b"", bytearray(), memoryview(b"")])
    assert file.size() == 0
    file.close()


def test_more_buffers_than_one_system_call_takes_are_all_written(place: Place) -> None:
    buffers = [b"%d," % number for number in range(2 * os.sysconf("SC_IOV_MAX") + 500)]
    file = place.files.create(place.path("a"))
    file.write(7, buffers)
    expected = b"".join(buffers)
    assert file.size() == 7 + len(expected)
    assert file.read(7, len(expected)) == expected
    file.close()


def test_buffers_of_wider_items_are_written_byte_for_byte(place: Place) -> None:
    wide = memoryview(bytes(range(64))).cast("q")
    file = place.files.create(place.path("a"))
    file.write(0, [wide, b"end"])
    assert file.read(0, 100) == bytes(range(64)) + b"end"
    file.close()


def test_truncate_cuts_and_extends_with_zeros(place: Place) -> None:
    file = place.files.create(place.path("a"))
    file.write(0, [b"0123456789"])
    file.truncate(4)
    assert file.read(0, 100) == b"0123"
    file.truncate(6)
    assert file.read(0, 100) == b"0123\0\0"
    file.close()


def test_sync_sync_all_and_sync_directory_keep_the_content(place: Place) -> None:
    opened = [place.files.create(place.path(f"file-{number}")) for number in range(10)]
    for number, file in enumerate(opened):
        file.write(0, [b"%d" % number])
    opened[0].sync()
    place.files.sync_all([])
    place.files.sync_all(opened[:1])
    place.files.sync_all(opened)
    place.files.sync_directory(place.base)
    assert [file.read(0, 9) for file in opened] == [b"%d" % number for number in range(10)]
    for file in opened:
        file.close()


def test_sync_all_reports_the_failure_of_one_file(place: Place) -> None:
    opened = [place.files.create(place.path(f"file-{number}")) for number in range(6)]
    opened[3].close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        place.files.sync_all(opened)
    for file in opened:
        file.close()


def test_create_empties_an_existing_file(place: Place) -> None:
    place.write("a", b"old")
    file = place.files.create(place.path("a"))
    assert file.size() == 0
    file.close()


def test_two_handles_see_each_others_writes(place: Place) -> None:
    first = place.files.create(place.path("a"))
    second = place.files.open(place.path("a"))
    first.write(0, [b"one"])
    second.write(3, [b"two"])
    assert first.read(0, 10) == second.read(0, 10) == b"onetwo"
    first.close()
    assert second.read(0, 3) == b"one"
    second.close()


def test_a_closed_file_refuses_use_but_closes_again(place: Place) -> None:
    file = place.files.create(place.path("a"))
    file.close()
    file.close()
    for use in (lambda: file.read(0, 1), lambda: file.write(0, [b"x"]), file.sync, lambda: file.truncate(0), file.size):
        with pytest.raises(OSError, match="Bad file descriptor") as raised:
            use()
        assert raised.value.errno == errno.EBADF


def test_rename_replaces_and_old_handles_follow_the_file(place: Place) -> None:
    place.write("old", b"new content")
    place.write("new", b"replaced")
    replaced = place.files.open(place.path("new"))
    moved = place.files.open(place.path("old"))
    place.files.rename(place.path("old"), place.path("new"))
    assert place.files.list_directory(place.base) == ["new"]
    assert place.content("new") == b"new content"
    assert replaced.read(0, 100) == b"replaced"
    moved.write(0, [b"NEW"])
    assert place.content("new") == b"NEW content"
    replaced.close()
    moved.close()


def test_a_directory_is_renamed_with_all_that_is_in_it(place: Place) -> None:
    place.files.make_directory(place.path("d"))
    place.write("d/a", b"inside")
    place.files.make_directory(place.path("e"))
    place.files.rename(place.path("d"), place.path("e/f"))
    assert place.content("e/f/a") == b"inside"
    assert not place.files.exists(place.path("d"))


def test_a_removed_file_stays_readable_for_who_has_it_open(place: Place) -> None:
    place.write("a", b"still here")
    file = place.files.open(place.path("a"))
    place.files.remove(place.path("a"))
    assert not place.files.exists(place.path("a"))
    place.write("a", b"another")
    assert file.read(0, 100) == b"still here"
    file.close()


def test_names_are_listed_sorted(place: Place) -> None:
    for name in ("b", "a", "c10", "c9"):
        place.write(name, b"")
    place.files.make_directory(place.path("ab"))
    assert place.files.list_directory(place.base) == ["a", "ab", "b", "c10", "c9"]


def test_sizes_are_told_without_opening(place: Place) -> None:
    place.write("a", b"12345")
    assert place.files.size(place.path("a")) == 5
    with pytest.raises(FileNotFoundError):
        place.files.size(place.path("b"))


def test_making_a_directory_twice_is_no_error(place: Place) -> None:
    place.files.make_directory(place.path("d"))
    place.write("d/a", b"x")
    place.files.make_directory(place.path("d"))
    assert place.files.list_directory(place.path("d")) == ["a"]
    place.files.remove(place.path("d/a"))
    place.files.remove_directory(place.path("d"))
    assert not place.files.exists(place.path("d"))


FAILURES = {
    "open of nothing": (lambda p: p.files.open(p.path("none")), errno.ENOENT),
    "open of a directory": (lambda p: p.files.open(p.path("directory")), errno.EISDIR),
    "open below a file": (lambda p: p.files.open(p.path("file/x")), errno.ENOTDIR),
    "create of a directory": (lambda p: p.files.create(p.path("directory")), errno.EISDIR),
    "create in nothing": (lambda p: p.files.create(p.path("none/x")), errno.ENOENT),
    "create below a file": (lambda p: p.files.create(p.path("file/x")), errno.ENOTDIR),
    "list of nothing": (lambda p: p.files.list_directory(p.path("none")), errno.ENOENT),
    "list of a file": (lambda p: p.files.list_directory(p.path("file")), errno.ENOTDIR),
    "make over a file": (lambda p: p.files.make_directory(p.path("file")), errno.EEXIST),
    "make in nothing": (lambda p: p.files.make_directory(p.path("none/x")), errno.ENOENT),
    "rename of nothing": (lambda p: p.files.rename(p.path("none"), p.path("x")), errno.ENOENT),
    "rename into nothing": (lambda p: p.files.rename(p.path("file"), p.path("none/x")), errno.ENOENT),
    "rename of a file over a directory": (lambda p: p.files.rename(p.path("file"), p.path("directory")), errno.EISDIR),
    "rename of a directory over a file": (lambda p: p.files.rename(p.path("directory"), p.path("file")), errno.ENOTDIR),
    "rename over a full directory": (lambda p: p.files.rename(p.path("empty"), p.path("directory")), errno.ENOTEMPTY),
    "rename of a file over its directory": (
        lambda p: p.files.rename(p.path("directory/inside"), p.path("directory")),
        errno.ENOTEMPTY,
    ),
    "rename into itself": (lambda p: p.files.rename(p.path("directory"), p.path("directory/x")), errno.EINVAL),
    "remove of nothing": (lambda p: p.files.remove(p.path("none")), errno.ENOENT),
    "remove of a directory": (lambda p: p.files.remove(p.path("directory")), errno.EISDIR),
    "remove_directory of a file": (lambda p: p.files.remove_directory(p.path("file")), errno.ENOTDIR),
    "remove_directory of a full one": (lambda p: p.files.remove_directory(p.path("directory")), errno.ENOTEMPTY),
    "remove_directory of nothing": (lambda p: p.files.remove_directory(p.path("none")), errno.ENOENT),
    "sync_directory of nothing": (lambda p: p.files.sync_directory(p.path("none")), errno.ENOENT),
    "sync_directory of a file": (lambda p: p.files.sync_directory(p.path("file")), errno.ENOTDIR),
    "free_bytes of nothing": (lambda p: p.files.free_bytes(p.path("none")), errno.ENOENT),
    "lock of a directory": (lambda p: p.files.lock(p.path("directory")), errno.EISDIR),
}


@pytest.mark.parametrize("case", FAILURES)
def test_failures_have_the_errno_of_linux_and_change_nothing(place: Place, case: str) -> None:
    place.write("file", b"content")
    place.files.make_directory(place.path("empty"))
    place.files.make_directory(place.path("directory"))
    place.write("directory/inside", b"")
    call, number = FAILURES[case]
    with pytest.raises(OSError, match=os.strerror(number)) as raised:
        call(place)  # type: ignore[no-untyped-call]
    assert raised.value.errno == number
    assert type(raised.value) is type(OSError(number, ""))
    assert place.files.list_directory(place.base) == ["directory", "empty", "file"]
    assert place.content("file") == b"content"
    assert place.files.list_directory(place.path("directory")) == ["inside"]


def test_a_lock_is_exclusive_until_released(place: Place) -> None:
    lock = place.files.lock(place.path(".lock"))
    with pytest.raises(FileLocked) as raised:
        place.files.lock(place.path(".lock"))
    assert raised.value.path == place.path(".lock")
    lock.release()
    again = place.files.lock(place.path(".lock"))
    lock.release()  # of a lock already given back: the one held now is untouched
    with pytest.raises(FileLocked):
        place.files.lock(place.path(".lock"))
    again.release()


def test_replace_file_leaves_the_new_content_and_no_other_file(place: Place) -> None:
    replace_file(place.files, place.path("checkpoint"), b"one")
    replace_file(place.files, place.path("checkpoint"), b"two")
    assert place.content("checkpoint") == b"two"
    assert place.files.list_directory(place.base) == ["checkpoint"]


def test_free_bytes_are_told(place: Place) -> None:
    assert place.files.free_bytes(place.base) > 0
