"""The machine's own file system: what only it can show."""

import errno
import os
import random
import resource
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.programs import Program

from lograft.runtime.disk import os_files
from lograft.runtime.disk.os_files import OsFiles, raise_descriptor_limit
from lograft.runtime.files import FileLocked, SyncFailed


@pytest.fixture
def files() -> Iterator[OsFiles]:
    made = OsFiles()
    yield made
    made.close()


def test_short_writes_are_continued(files: OsFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_writev, real_write = os.pwritev, os.pwrite
    monkeypatch.setattr(os, "pwritev", lambda fd, buffers, at: real_writev(fd, [bytes(buffers[0])[:3]], at))
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: real_write(fd, data[:4], at))
    file = files.create(f"{tmp_path}/a")
    file.write(2, [b"hello", b" ", b"world"])
    assert file.read(2, 100) == b"hello world"
    file.close()


def test_short_reads_are_continued(files: OsFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = files.create(f"{tmp_path}/a")
    file.write(0, [b"0123456789"])
    real_read = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, size, at: real_read(fd, min(size, 3), at))
    assert file.read(1, 8) == b"12345678"
    assert file.read(5, 100) == b"56789"
    file.close()


def test_a_sync_that_fails_says_that_it_was_one(
    files: OsFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(fd: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    file = files.create(f"{tmp_path}/a")
    monkeypatch.setattr(os, "fdatasync", fail)
    monkeypatch.setattr(os, "fsync", fail)
    for path, sync in (
        (f"{tmp_path}/a", file.sync),
        (f"{tmp_path}/a", lambda: files.sync_all([file])),
        (str(tmp_path), lambda: files.sync_directory(str(tmp_path))),
    ):
        with pytest.raises(SyncFailed, match="Input/output error") as raised:
            sync()
        assert (raised.value.errno, raised.value.filename) == (errno.EIO, path)
    file.close()


@pytest.mark.parametrize("size", [100, 100_000])
def test_a_cached_read_that_memory_cannot_answer_whole_is_none(
    files: OsFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    file = files.create(f"{tmp_path}/a")
    file.write(0, [bytes(200_000)])

    def partly_there(fd: int, buffers: list[memoryview], at: int, flags: int) -> int:
        assert flags == os.RWF_NOWAIT
        return size - 1

    def not_there(fd: int, buffers: list[memoryview], at: int, flags: int) -> int:
        raise BlockingIOError

    monkeypatch.setattr(os, "preadv", partly_there)
    assert file.read_cached(0, size) is None
    assert len(file.read_cached(200_001 - size, size) or b"") == size - 1  # there it is the end of the file
    monkeypatch.setattr(os, "preadv", not_there)
    assert file.read_cached(0, size) is None
    file.close()


def test_a_file_system_without_cached_reads_is_asked_once(
    files: OsFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def not_supported(fd: int, buffers: list[bytearray], at: int, flags: int) -> int:
        asked.append(at)
        raise OSError(os_files.errno.EOPNOTSUPP, "not supported")  # type: ignore[attr-defined]

    monkeypatch.setattr(os, "preadv", not_supported)
    file = files.create(f"{tmp_path}/a")
    assert file.read_cached(0, 10) is None
    assert file.read_cached(0, 10) is None
    assert asked == [0]
    file.close()


def test_cached_reads_of_fresh_data_are_answered_where_the_file_system_can(files: OsFiles, tmp_path: Path) -> None:
    file = files.create(f"{tmp_path}/a")
    content = random.Random(1).randbytes(300_000)
    file.write(0, [content])
    descriptor = os.open(f"{tmp_path}/a", os.O_RDONLY)
    try:
        os.preadv(descriptor, [bytearray(10)], 0, os.RWF_NOWAIT)
    except OSError:
        pytest.skip("this file system has no cached reads")
    finally:
        os.close(descriptor)
    assert file.read_cached(0, 1000) == content[:1000]
    assert file.read_cached(5, 250_000) == content[5:250_005]
    assert file.read_cached(200_000, 250_000) == content[200_000:]
    file.close()


def test_the_threads_of_sync_all_end_with_the_file_system(files: OsFiles, tmp_path: Path) -> None:
    before = threading.active_count()
    opened = [files.create(f"{tmp_path}/{number}") for number in range(8)]
    files.sync_all(opened)
    assert threading.active_count() > before
    files.close()
    assert threading.active_count() == before
    for file in opened:
        file.close()


def test_the_lock_of_a_living_process_holds_and_a_killed_ones_is_free(files: OsFiles, tmp_path: Path) -> None:
    script = (
        "import sys; from lograft.runtime.disk.os_files import OsFiles;"
        "lock = OsFiles().lock(sys.argv[1]); print('held', flush=True); sys.stdin.read()"
    )
    path = f"{tmp_path}/.lock"
    with Program(sys.executable, "-c", script, path) as holder:
        assert holder.line() == "held\n"
        with pytest.raises(FileLocked):
            files.lock(path)
    files.lock(path).release()


def test_descriptors_are_not_leaked(files: OsFiles, tmp_path: Path) -> None:
    before = os.listdir("/proc/self/fd")
    lock = files.lock(f"{tmp_path}/.lock")
    with pytest.raises(FileLocked):
        files.lock(f"{tmp_path}/.lock")
    lock.release()
    files.create(f"{tmp_path}/a").close()
    files.sync_directory(str(tmp_path))
    assert os.listdir("/proc/self/fd") == before


def test_the_descriptor_limit_is_raised_to_the_hard_one() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, hard), hard))
        assert raise_descriptor_limit() == hard
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
