"""The ordered disk writer of one data directory: appends return at once, and waiting callers share an fsync.

All writes to a directory go through its one writer, in order of the calls. The writer performs operations that queued
up while the disk was busy as one round: it merges writes to the same file, and syncs each file once.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol, TypeVar

from lograft.runtime.blocking import WorkerFactory
from lograft.runtime.disk.patient_files import PatientFiles
from lograft.runtime.files import Buffer, File, Files, SyncFailed, is_without_room, parent_of
from lograft.runtime.histogram import Histogram
from lograft.runtime.process.stopwatch import now_seconds

T = TypeVar("T")


class DiskFailed(Exception):
    """Raised when a write or an fsync failed. The content of the disk is unknown, so the writer writes nothing more to
    this directory."""

    def __init__(self, path: str, cause: OSError) -> None:
        super().__init__(f"writing to {path} failed, and writing to its directory has ended: {cause}")
        self.path = path
        self.cause = cause


class AppendObserver(Protocol):
    """Receives the outcome of a file's appends, on the event loop."""

    def on_progress(self, file: "AppendFile") -> None:
        """Note that `file.written` or `file.synced` has advanced."""
        ...

    def on_disk_failed(self, error: DiskFailed) -> None:
        """Note that pending appends will never be written or synced."""
        ...


class AppendFile:
    """The event loop's view of a file that grows through a writer: `synced <= written <= appended`, all in bytes."""

    __slots__ = ("appended", "generation", "observer", "opened", "path", "synced", "written")

    def __init__(self, path: str, size: int, observer: AppendObserver, opened: File | None) -> None:
        self.path = path
        self.appended = size
        self.written = size
        self.synced = size
        self.generation = 0  # incremented by each truncation: completions of older generations are ignored
        self.observer = observer
        self.opened = opened  # for reading below `written`; None until the file is created


@dataclass(slots=True, eq=False)
class _Create:
    file: AppendFile


@dataclass(slots=True, eq=False)
class _Append:
    file: AppendFile
    generation: int
    position: int
    buffers: Sequence[Buffer]
    end: int
    sync: bool


@dataclass(slots=True, eq=False)
class _Sync:
    file: AppendFile
    generation: int
    end: int


@dataclass(slots=True, eq=False)
class _Truncate:
    file: AppendFile
    generation: int
    size: int
    done: "asyncio.Future[None]"


@dataclass(slots=True, eq=False)
class _Call:
    action: Callable[[], Any]
    done: "asyncio.Future[Any] | None"
    path: str = ""  # the path concerned, for error reports


@dataclass(slots=True, eq=False)
class _Fail:
    """An operation outside the queue failed."""

    error: OSError
    path: str
    done: "asyncio.Future[Any]"


@dataclass(slots=True, eq=False)
class _Retry:
    """Retry refused operations: the disk may have space now."""


@dataclass(slots=True, eq=False)
class _StopWaiting:
    """Let a full disk end writing from now on."""


class _Ended(Exception):
    """Ends writing."""

    def __init__(self, error: DiskFailed) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass(slots=True, eq=False)
class _Progress:
    """The progress of one file in a round."""

    generation: int
    written: int
    synced: int


@dataclass(slots=True, eq=False)
class _Outcome:
    """The outcome of one round, built off the event loop and then handed to it."""

    opened: list[tuple[AppendFile, File]] = field(default_factory=list)
    progress: dict[AppendFile, _Progress] = field(default_factory=dict)
    answers: list[tuple["asyncio.Future[Any]", Any, BaseException | None]] = field(default_factory=list)
    appended_bytes: int = 0
    sync_seconds: list[float] = field(default_factory=list)
    failure: DiskFailed | None = None
    refused: OSError | None = None  # by a full disk: the remaining operations wait


class _Round:
    """Performs one list of operations. Runs off the event loop, and touches only the handles and its own outcome."""

    def __init__(self, files: Files, handles: dict[AppendFile, File]) -> None:
        self._files = files
        self._handles = handles
        self._unwritten: dict[AppendFile, list[_Append]] = {}
        self._unsynced: dict[AppendFile, None] = {}
        self._reached_by_sync: list[_Sync] = []
        self.outcome = _Outcome()
        self.done = 0  # the number of leading operations that are done and must not be repeated
        self.path = ""  # the file being written, for error reports

    def perform(self, operations: list[Any]) -> None:
        for place, operation in enumerate(operations):
            match operation:
                case _Append():
                    self._append(operation)
                    continue
                case _Sync(file=file):
                    self._reached_by_sync.append(operation)
                    self._unsynced[file] = None
                    continue
            # Appends before any other operation are written first, and synced where requested.
            self._settle()
            self.done = place
            match operation:
                case _Create(file=file):
                    self._create(file)
                case _Truncate():
                    self._truncate(operation)
                case _Call():
                    self._call(operation)
                case _Fail(error=error, path=path):
                    raise _Ended(DiskFailed(path, error))
            self.done = place + 1
        self._settle()
        self.done = len(operations)

    def _append(self, operation: _Append) -> None:
        self._unwritten.setdefault(operation.file, []).append(operation)
        if operation.sync:
            self._unsynced[operation.file] = None

    def _settle(self) -> None:
        """Write pending appends, one call per file; then sync the requested files.

        Positions are fixed by the request, so repeating a partial write has the same result.
        """
        for file, appends in self._unwritten.items():
            self.path = file.path
            buffers = [buffer for append in appends for buffer in append.buffers]
            self._handles[file].write(appends[0].position, buffers)
            for append in appends:
                self._reached(file, append.generation, written=append.end)
        self._unwritten.clear()
        for sync in self._reached_by_sync:
            self._reached(sync.file, sync.generation, written=sync.end)
        self._reached_by_sync.clear()
        if self._unsynced:
            self.path = next(iter(self._unsynced)).path
            began_seconds = now_seconds()
            self._files.sync_all([self._handles[file] for file in self._unsynced])
            self.outcome.sync_seconds.append(now_seconds() - began_seconds)
            for file in self._unsynced:
                progress = self.outcome.progress[file]
                progress.synced = progress.written
            self._unsynced.clear()

    def _create(self, file: AppendFile) -> None:
        self.path = file.path
        handle = self._handles[file] = self._files.create(file.path)
        self.outcome.opened.append((file, handle))  # report it even if a later step fails, so that it is closed
        self._files.sync_directory(parent_of(file.path))
        self._reached(file, 0, written=0)

    def _truncate(self, operation: _Truncate) -> None:
        self.path = operation.file.path
        handle = self._handles[operation.file]
        handle.truncate(operation.size)
        handle.sync()
        size = operation.size
        self.outcome.progress[operation.file] = _Progress(operation.generation, written=size, synced=size)
        self.outcome.answers.append((operation.done, None, None))

    def _call(self, operation: _Call) -> None:
        self.path = operation.path
        result = operation.action()
        if operation.done is not None:
            self.outcome.answers.append((operation.done, result, None))

    def _reached(self, file: AppendFile, generation: int, written: int) -> None:
        progress = self.outcome.progress.get(file)
        if progress is None or progress.generation != generation:
            self.outcome.progress[file] = _Progress(generation, written, synced=0)
        else:
            progress.written = max(progress.written, written)


class DiskWriter:
    """Writes to one directory, in order. Used on the event loop; the disk work runs off it.

    The first failure ends writing permanently, and `failure` has the reason: after a failed fsync the kernel may drop
    the data and report success for the next fsync, so no later write could be trusted. The writer calls `sync_failed`
    off the event loop before it reports a failed sync. A shortage of descriptors is not a failure: the writer waits
    until it is over. Nor is a full disk: the refused operation and all later ones wait for `retry`, and the writer
    calls `on_refused`.
    """

    def __init__(
        self,
        files: Files,
        make_worker: WorkerFactory,
        directory: str,
        max_queued_bytes: int = 256 * 1024 * 1024,
        sync_failed: Callable[[SyncFailed], None] = lambda error: None,
    ) -> None:
        self.files = PatientFiles(files)  # for the actions of `call` and `enqueue`
        self._directory = directory
        self._max_queued_bytes = max_queued_bytes
        self._sync_failed = sync_failed
        self._handles: dict[AppendFile, File] = {}  # of the worker: only rounds touch it
        self._backlog: list[Any] = []  # of the worker: operations that wait for disk space
        self._dead: DiskFailed | None = None  # the worker's view of `failure`
        self._open: dict[AppendFile, None] = {}
        self._waiting_for_room: list[asyncio.Future[None]] = []
        self._worker = make_worker(f"disk {directory}", self._perform, self._completed)
        self.queued_bytes = 0
        self.sync_seconds = Histogram()  # one observation per group of files synced together
        self.failure: DiskFailed | None = None
        self.is_stalled = False  # operations wait for disk space
        self.on_refused: Callable[[], None] = lambda: None
        self._is_impatient = False
        self._gives_up = False  # the worker's view of `_is_impatient`

    # -- files

    def create(self, path: str, observer: AppendObserver) -> AppendFile:
        """Return a new, empty file. Its name is durable before the writer reports any of its data as written."""
        self._check()
        file = AppendFile(path, 0, observer, opened=None)
        self._open[file] = None
        self._worker.submit(_Create(file))
        return file

    def adopt(self, handle: File, size: int, observer: AppendObserver) -> AppendFile:
        """Return a file for appends to an existing file with `size` durable bytes."""
        self._check()
        file = AppendFile(handle.path, size, observer, opened=handle)
        self._open[file] = None

        def take() -> None:
            self._handles[file] = handle

        self._worker.submit(_Call(take, None))
        return file

    def release(self, file: AppendFile) -> None:
        """Stop appending to `file`, and report no failure to its observer. Queued appends are still written.

        Its handle stays open: the caller closes it.
        """

        def drop() -> None:
            self._handles.pop(file, None)

        self._worker.submit(_Call(drop, None))
        self._open.pop(file, None)

    # -- operations

    def append(self, file: AppendFile, buffers: Sequence[Buffer], *, sync: bool) -> int:
        """Queue `buffers` for the end of `file`. Return their position.

        With `sync`, fsync them as soon as they are written. The file's observer reports progress.
        """
        self._check()
        position = file.appended
        end = position + sum(map(len, buffers))  # the length in bytes, because all buffers here hold bytes
        file.appended = end
        self.queued_bytes += end - position
        self._worker.submit(_Append(file, file.generation, position, buffers, end, sync))
        return position

    def sync(self, file: AppendFile) -> None:
        """Fsync `file` once everything now queued for it is written."""
        self._check()
        self._worker.submit(_Sync(file, file.generation, file.appended))

    def truncate(self, file: AppendFile, size: int) -> "asyncio.Future[None]":
        """Truncate `file` to `size` after its queued operations. Return a future that completes when the truncation is
        durable."""
        self._check()
        assert size <= file.appended
        file.generation += 1
        file.appended = size
        file.written = min(file.written, size)
        file.synced = min(file.synced, size)
        done = self._future()
        self._worker.submit(_Truncate(file, file.generation, size, done))
        return done

    def call(self, action: Callable[[], T]) -> "asyncio.Future[T]":
        """Run `action` off the event loop, in order of the queue. Return a future of its result."""
        self._check()
        done = self._future()
        self._worker.submit(_Call(action, done))
        return done

    def enqueue(self, action: Callable[[], object]) -> None:
        """Run `action` like `call`, for callers that do not wait. A failure becomes the writer's `failure`."""
        self._check()
        self._worker.submit(_Call(action, None))

    async def fail(self, path: str, error: OSError) -> NoReturn:
        """Report that a file of this directory failed outside the queue: end writing and raise DiskFailed."""

        self._check()
        done = self._future()
        self._worker.submit(_Fail(error, path, done))
        await done
        raise AssertionError(f"{path} failed, and writing goes on")

    def retry(self) -> None:
        """Retry refused operations: the disk may have space now."""
        if self.is_stalled and self.failure is None:
            self._worker.submit(_Retry())

    def stop_waiting(self) -> None:
        """Let a full disk end writing from now on, and give up operations that wait for space. Call it before closing.

        Only waiting callers get an error, not observers: the directory has not failed, and is left as after a crash.
        """
        if not self._is_impatient:
            self._is_impatient = True
            self._worker.submit(_StopWaiting())

    async def room(self) -> None:
        """Wait until the queue is below its limit, or stalled. Call before large appends."""
        while self.queued_bytes > self._max_queued_bytes and self.failure is None and not self.is_stalled:
            waiter = self._future()
            self._waiting_for_room.append(waiter)
            await waiter

    async def close(self) -> None:
        """Wait until all queued operations are performed. Owners close their files themselves."""
        await self._worker.close()

    # -- the two sides

    def _perform(self, operations: list[Any]) -> _Outcome:
        """Perform one round, off the event loop."""
        self._gives_up |= any(isinstance(one, _StopWaiting) for one in operations)
        operations = [*self._backlog, *(one for one in operations if not isinstance(one, _Retry | _StopWaiting))]
        self._backlog = []
        round_ = _Round(self.files, self._handles)
        outcome = round_.outcome
        if self._dead is None:
            try:
                round_.perform(operations)
            except _Ended as ended:
                self._dead = ended.error
            except OSError as error:
                if is_without_room(error) and not self._gives_up:
                    outcome.refused = error
                    self._backlog = operations[round_.done :]
                    outcome.appended_bytes = _appended_bytes(operations[: round_.done])
                    return outcome
                self._dead = DiskFailed(round_.path or self._directory, error)
                if isinstance(error, SyncFailed):
                    self._sync_failed(error)
            else:
                outcome.appended_bytes = _appended_bytes(operations)
                return outcome
        # A failed round reports none of its operations as done.
        answered = {id(done) for done, _, _ in outcome.answers}
        outcome.progress.clear()
        outcome.failure = self._dead
        outcome.appended_bytes = _appended_bytes(operations)
        for operation in operations:
            done = operation.done if isinstance(operation, _Call | _Truncate | _Fail) else None
            if done is not None and id(done) not in answered:
                outcome.answers.append((done, None, self._dead))
        return outcome

    def _completed(self, outcome: _Outcome) -> None:
        """Report the outcome of a round, on the event loop."""
        self.queued_bytes -= outcome.appended_bytes
        self.is_stalled = outcome.refused is not None
        for seconds in outcome.sync_seconds:
            self.sync_seconds.observe(seconds)
        if outcome.failure is not None and self.failure is None:
            self.failure = outcome.failure
            if not is_without_room(outcome.failure.cause):
                for file in list(self._open):
                    file.observer.on_disk_failed(outcome.failure)
        for file, handle in outcome.opened:
            file.opened = handle
        for file, progress in outcome.progress.items():
            if progress.generation == file.generation:
                file.written = max(file.written, progress.written)
                file.synced = max(file.synced, progress.synced)
                file.observer.on_progress(file)
        for done, result, error in outcome.answers:
            if done.done():
                continue  # the caller was cancelled
            if error is None:
                done.set_result(result)
            else:
                done.set_exception(error)
        if self.is_stalled:
            self.on_refused()
        if self._waiting_for_room and (
            self.queued_bytes <= self._max_queued_bytes or self.is_stalled or self.failure is not None
        ):
            waiters, self._waiting_for_room = self._waiting_for_room, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)

    def _check(self) -> None:
        if self.failure is not None:
            raise self.failure

    def _future(self) -> "asyncio.Future[Any]":
        return asyncio.get_running_loop().create_future()


def _appended_bytes(operations: Sequence[Any]) -> int:
    return sum(one.end - one.position for one in operations if isinstance(one, _Append))
