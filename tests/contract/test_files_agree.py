"""The simulated file system against the machine's own, on random sequences of calls: every answer is the same. And
against the machine's own with faults on demand: power failures leave the same."""

import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from lograft.chaos.live.cluster.power_failure import lose_power
from lograft.chaos.world.files import VirtualFile, VirtualFiles
from lograft.chaos.world.power_loss import Fate
from lograft.runtime.disk.os_files import OsFiles
from lograft.runtime.faults.faulty_files import FaultyFiles
from lograft.runtime.faults.settings import FaultSettings, FaultSwitch
from lograft.runtime.files import File, FileLocked, Files, Lock
from lograft.runtime.rng import Rng

PATHS = st.sampled_from(["a", "b", "d", "d/a", "d/b", "e", "e/a", "d/f", "d/f/a"])
POSITIONS = st.one_of(st.integers(0, 20), st.integers(0, 9000))
BUFFERS = st.lists(st.binary(max_size=40), max_size=4)


class FilesAgree(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.place = tempfile.mkdtemp()
        self.base = f"{self.place}/data"
        os.mkdir(self.base)
        self.os_files = self.start()
        self.virtual = VirtualFiles(Rng(0), cold_read_probability=0)
        self.virtual.make_directory("/data")
        self.virtual.sync_directory("/")
        self.handles: list[tuple[File, File]] = []
        self.locks: list[tuple[Lock, Lock]] = []

    def start(self) -> OsFiles:
        """As a new process."""
        return OsFiles()

    def both(self, call: Callable[[Files, str], Any]) -> tuple[Any, Any]:
        """Make a call in both worlds; they must fail alike or both succeed."""
        real = self.outcome(lambda: call(self.os_files, self.base))
        simulated = self.outcome(lambda: call(self.virtual, "/data"))
        if isinstance(real, Exception) or isinstance(simulated, Exception):
            assert self.failure(real) == self.failure(simulated)
        return real, simulated

    def both_equal(self, call: Callable[[Files, str], Any]) -> None:
        real, simulated = self.both(call)
        if not isinstance(real, Exception):
            assert real == simulated

    @staticmethod
    def outcome(call: Callable[[], Any]) -> Any:
        try:
            return call()
        except (OSError, FileLocked) as error:
            return error

    @staticmethod
    def failure(outcome: Any) -> Any:
        if isinstance(outcome, OSError):
            return type(outcome), outcome.errno
        return type(outcome)

    def on_handle(self, choice: int, call: Callable[[File], Any]) -> None:
        real, simulated = self.handles[choice % len(self.handles)]
        first, second = self.outcome(lambda: call(real)), self.outcome(lambda: call(simulated))
        if isinstance(first, Exception) or isinstance(second, Exception):
            assert self.failure(first) == self.failure(second)
        else:
            assert first == second

    @rule(path=PATHS, create=st.booleans())
    def open(self, path: str, create: bool) -> None:
        real, simulated = self.both(lambda f, base: (f.create if create else f.open)(f"{base}/{path}"))
        if not isinstance(real, Exception):
            self.handles.append((real, simulated))

    @rule(path=PATHS)
    def make_directory(self, path: str) -> None:
        self.both(lambda f, base: f.make_directory(f"{base}/{path}"))

    @rule(old=PATHS, new=PATHS)
    def rename(self, old: str, new: str) -> None:
        self.both(lambda f, base: f.rename(f"{base}/{old}", f"{base}/{new}"))

    @rule(path=PATHS)
    def remove(self, path: str) -> None:
        self.both(lambda f, base: f.remove(f"{base}/{path}"))

    @rule(path=PATHS)
    def remove_directory(self, path: str) -> None:
        self.both(lambda f, base: f.remove_directory(f"{base}/{path}"))

    @rule(path=PATHS)
    def look(self, path: str) -> None:
        self.both_equal(lambda f, base: f.exists(f"{base}/{path}"))
        self.both_equal(lambda f, base: f.list_directory(f"{base}/{path}"))

    @rule(path=PATHS)
    def sync_directory(self, path: str) -> None:
        self.both(lambda f, base: f.sync_directory(f"{base}/{path}"))

    @rule(path=PATHS)
    def lock(self, path: str) -> None:
        real, simulated = self.both(lambda f, base: f.lock(f"{base}/{path}"))
        if not isinstance(real, Exception):
            self.locks.append((real, simulated))

    @precondition(lambda self: self.locks)
    @rule()
    def release(self) -> None:
        for lock in self.locks.pop(0):
            lock.release()

    @precondition(lambda self: self.handles)
    @rule(choice=st.integers(0, 9), position=POSITIONS, buffers=BUFFERS)
    def write(self, choice: int, position: int, buffers: list[bytes]) -> None:
        self.on_handle(choice, lambda file: file.write(position, buffers))

    @precondition(lambda self: self.handles)
    @rule(choice=st.integers(0, 9), position=POSITIONS, size=POSITIONS)
    def read(self, choice: int, position: int, size: int) -> None:
        self.on_handle(choice, lambda file: file.read(position, size))
        self.on_handle(choice, lambda file: file.size())

    @precondition(lambda self: self.handles)
    @rule(choice=st.integers(0, 9), size=POSITIONS)
    def truncate(self, choice: int, size: int) -> None:
        self.on_handle(choice, lambda file: file.truncate(size))

    @precondition(lambda self: self.handles)
    @rule(choice=st.integers(0, 9))
    def close(self, choice: int) -> None:
        self.on_handle(choice, lambda file: file.close())

    @rule()
    def crash(self) -> None:
        """A killed process loses its handles and locks, and nothing else."""
        self.drop_real_handles()
        self.os_files.close()
        self.os_files = self.start()
        self.virtual.process_crash()

    def drop_real_handles(self) -> None:
        for real, _ in [*self.handles]:
            real.close()
        for lock, _ in self.locks:
            lock.release()
        self.handles.clear()
        self.locks.clear()

    def teardown(self) -> None:
        self.drop_real_handles()
        try:
            assert self.tree(self.os_files, self.base, "") == self.tree(self.virtual, "/data", "")
        finally:
            self.os_files.close()
            shutil.rmtree(self.place)

    def tree(self, files: Files, base: str, below: str) -> dict[str, bytes | None]:
        found: dict[str, bytes | None] = {}
        for name in files.list_directory(base + below):
            path = f"{below}/{name}"
            try:
                file = files.open(base + path)
            except IsADirectoryError:
                found[path] = None
                found.update(self.tree(files, base, path))
            else:
                found[path] = file.read(0, file.size())
                file.close()
        return found


TestFilesAgree = FilesAgree.TestCase
TestFilesAgree.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


class FixedRng:
    """Each time the same fate, for content and for names."""

    def __init__(self, fate: Fate, keeps_names: bool) -> None:
        self.fate = fate
        self.keeps_names = keeps_names

    def choice(self, choices: Sequence[Any]) -> Any:
        return self.fate if isinstance(choices[0], Fate) else choices[1 if self.keeps_names else 0]

    def randrange(self, end: int) -> int:
        return end // 2

    def randint(self, _first: int, last: int) -> int:
        return last

    def random(self) -> float:
        return 0.5


class FaultyFilesAgree(FilesAgree):
    """Also when syncs fail, the disk is full, and the machine loses power."""

    def start(self) -> OsFiles:
        os.makedirs(f"{self.place}/faults", exist_ok=True)
        return FaultyFiles(FaultSwitch(f"{self.place}/faults"))

    def switch(self, settings: FaultSettings) -> None:
        files = self.os_files
        assert isinstance(files, FaultyFiles)
        files._switch._settings = settings  # as if it had been read just now
        files._switch._looked_seconds = float("inf")

    @precondition(lambda self: self.handles)
    @rule(choice=st.integers(0, 9))
    def sync(self, choice: int) -> None:
        if self.is_open(choice):
            self.on_handle(choice, lambda file: file.sync())

    def is_open(self, choice: int) -> bool:
        """Who syncs a closed file is told so in other words."""
        _, simulated = self.handles[choice % len(self.handles)]
        assert isinstance(simulated, VirtualFile)
        return not simulated._closed

    @rule(path=PATHS)
    def fail_to_sync_directory(self, path: str) -> None:
        self.switch(FaultSettings(fails_syncs=True))
        self.virtual.fail_next_sync()
        self.both(lambda f, base: f.sync_directory(f"{base}/{path}"))
        self.virtual.fail_no_sync()
        self.switch(FaultSettings())

    @precondition(lambda self: self.handles)
    @rule(choice=st.integers(0, 9), seed=st.integers(0, 100))
    def fail_sync(self, choice: int, seed: int) -> None:
        files, virtual = self.os_files, self.virtual
        if not self.is_open(choice):
            return
        assert isinstance(files, FaultyFiles)
        files._dice, virtual._rng = Rng(0), Rng(seed)  # type: ignore[assignment]
        files._dice.randrange = lambda *_: seed  # type: ignore[method-assign]
        self.switch(FaultSettings(fails_syncs=True))
        virtual.fail_next_sync()
        self.on_handle(choice, lambda file: file.sync())
        virtual.fail_no_sync()
        self.switch(FaultSettings())

    @rule(fate=st.sampled_from(list(Fate)), keeps_names=st.booleans())
    def power_failure(self, fate: Fate, keeps_names: bool) -> None:
        rng: Any = FixedRng(fate, keeps_names)
        self.drop_real_handles()
        self.os_files.close()
        lose_power(Path(self.base), Path(self.place, "faults"), rng)
        self.os_files = self.start()
        self.virtual._rng = rng
        self.virtual.power_failure()
        self.virtual._rng = Rng(0)
        assert self.tree(self.os_files, self.base, "") == self.tree(self.virtual, "/data", "")


TestFaultyFilesAgree = FaultyFilesAgree.TestCase
TestFaultyFilesAgree.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)
