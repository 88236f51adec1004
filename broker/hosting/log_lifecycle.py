"""Opens, removes, moves aside and rebuilds the logs of this broker's partitions as the image requires, step by step.

A step is an operation on disk. A partition has at most one step under way; when it ends, the current image decides the
next one. Changes that need no disk, such as the role of an open replica, take effect immediately.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeAlias
from uuid import UUID

from lograft.broker.hosting.assigned_partitions import AssignedPartitions
from lograft.broker.hosting.failure_reports import FailureReports
from lograft.broker.hosting.log_directories import LogDirectories, LogDirectory
from lograft.broker.replica.context import ReplicaContext, ReplicaIdentity
from lograft.broker.replica.replica import Replica
from lograft.metadata.image.partition import Partition, PartitionKey
from lograft.runtime.disk.disk_writer import DiskFailed
from lograft.runtime.observability.logging import get_logger
from lograft.storage.errors import CorruptLog, ResourceShortage
from lograft.storage.files.file_names import PartitionName
from lograft.storage.log.log_config import LogConfig
from lograft.storage.log.remains import Remains

log = get_logger(__name__)

_OPENINGS_AT_ONCE = 8
_SHORTAGE_PAUSE_MS = 500

# -- the states of a partition's log; a partition without a log has no state


@dataclass(frozen=True, slots=True)
class Open:
    directory: LogDirectory
    name: PartitionName
    replica: Replica


@dataclass(frozen=True, slots=True)
class Corrupt:
    """A log with damaged contents.

    `replica`: has the log open; None if it could not be opened. `is_reported`: the controller has acknowledged the
    damage, and the image shows it. `remains`: what an unclean election could keep of the log, once `is_surveyed`; None
    if nothing."""

    directory: LogDirectory
    name: PartitionName
    replica: Replica | None
    is_reported: bool = False
    is_surveyed: bool = False
    remains: Remains | None = None


@dataclass(frozen=True, slots=True)
class Lost:
    """A log in a failed directory. The fields are those of `Corrupt`."""

    directory: LogDirectory
    name: PartitionName
    replica: Replica | None
    is_reported: bool = False


LogState: TypeAlias = Open | Corrupt | Lost

Spawn: TypeAlias = Callable[[Coroutine[Any, Any, None], str], "asyncio.Task[None]"]


class LogLifecycle:
    """Call `look_at` whenever a partition's image or log may have changed. `spawn` starts a task owned by the
    broker."""

    def __init__(
        self,
        image: AssignedPartitions,
        directories: LogDirectories,
        context: ReplicaContext,
        spawn: Spawn,
        reports: FailureReports,
    ) -> None:
        self._image = image
        self._directories = directories
        self._context = context
        self._spawn = spawn
        self._reports = reports
        self._states: dict[PartitionKey, LogState] = {}
        self._tended: dict[PartitionKey, asyncio.Task[None]] = {}
        self._openings = asyncio.Semaphore(_OPENINGS_AT_ONCE)
        self._configured: dict[PartitionKey, LogConfig] = {}  # the configuration last found in effect
        self.replicas: dict[PartitionKey, Replica] = {}  # the open, undamaged and assigned ones
        self.times_configured = 0  # how often a log was opened or reconfigured

    # -- state

    def known(self) -> list[PartitionKey]:
        """Return all partitions that have a state or a step under way."""
        return list({**self._states, **self._tended})

    def state_of(self, key: PartitionKey) -> LogState | None:
        return self._states.get(key)

    def open_in(self, directory: LogDirectory) -> Iterator[tuple[PartitionName, Replica]]:
        for state in self._states.values():
            if isinstance(state, Open) and state.directory is directory:
                yield state.name, state.replica

    async def settled(self) -> None:
        """Return when the steps now under way have ended; new ones may have begun meanwhile."""
        tasks = list(self._tended.values())
        if tasks:
            await asyncio.wait(tasks)

    # -- reconciliation with the image

    def look_at(self, key: PartitionKey) -> None:
        """Apply the image's assignment to the partition's replica, and start a step if one is needed."""
        if not self._image.may_act:
            if (replica := self.replicas.get(key)) is not None:
                replica.take(None)
            return
        state = self._states.get(key)
        if isinstance(state, Open):
            replica, assignment = state.replica, self._image.wanted(key)
            if assignment is None:
                self.replicas.pop(key, None)
            elif not replica.has_failed:  # a failed one is about to be closed
                self.replicas[key] = replica
            replica.take(assignment)
        elif isinstance(state, Corrupt) and state.is_reported:
            self._report_again_if_it_counts(key, state)
        if key not in self._tended and self._next_step(key) is not None:
            self._tended[key] = self._spawn(self._tend(key), f"log {key[0]}-{key[1]}")

    async def _tend(self, key: PartitionKey) -> None:
        try:
            while (step := self._next_step(key)) is not None:
                await step()
        finally:
            del self._tended[key]

    def _next_step(self, key: PartitionKey) -> Callable[[], Coroutine[Any, Any, None]] | None:
        """Return the next step of the partition, or None if there is none."""
        if not self._image.may_act:
            return None
        state, assignment = self._states.get(key), self._image.wanted(key)
        match state:
            case None if assignment is not None and self._directories.healthy:
                return lambda: self._open(key)
            case Open() | Corrupt() if assignment is None:
                return lambda: self._remove(key, state)
            case Open() if self._has_other_config(key, state.replica):
                return lambda: self._reconfigure(key, state)
            case Corrupt() if assignment is not None and state.is_reported and self._is_replaced(assignment.partition):
                is_elected = assignment.partition.leader == self._image.broker_id
                return lambda: self._keep_remains(key, state) if is_elected else self._discard(key, state)
            case Corrupt(is_reported=True, is_surveyed=False) if (
                assignment is not None and assignment.partition.leader is None
            ):
                return lambda: self._survey(key, state)
            case Lost() if assignment is None or state.is_reported:
                return lambda: self._leave(key, state)
        return None

    def _is_replaced(self, partition: Partition) -> bool:
        """Return whether the cluster no longer relies on the log here: another broker leads and can supply it, or an
        unclean election chose this broker and accepted the loss."""
        own = self._image.broker_id
        if self._counts(partition) and partition.leader != own:
            return False
        if partition.leader == own:
            return partition.unclean_epoch == partition.leader_epoch
        return partition.leader is not None

    def _report_again_if_it_counts(self, key: PartitionKey, state: Corrupt) -> None:
        """Report the replica again if it counts: its leader, on stale information, may have readmitted it to the
        ISR."""
        assignment = self._image.wanted(key)
        if (
            assignment is not None
            and self._counts(assignment.partition)
            and not self._is_replaced(assignment.partition)
        ):
            self._states[key] = replace(state, is_reported=False)
            self._reports.replica_is_corrupt(key, "still corrupt")

    def _counts(self, partition: Partition) -> bool:
        own = self._image.broker_id
        return own in partition.isr or partition.is_eligible(own)

    def _has_other_config(self, key: PartitionKey, replica: Replica) -> bool:
        config = self._image.log_config_of(key)
        if config is self._configured.get(key):
            return False  # most of the time
        if config != replica.log_config:
            return True
        self._configured[key] = config
        return False

    # -- steps

    async def _open(self, key: PartitionKey) -> None:
        async with self._openings:
            assignment = self._image.wanted(key)
            if assignment is None:
                return
            name = self._image.name_of(key)
            directory = self._directories.choose(name, assignment.partition.directory_of(self._image.broker_id))
            if directory is None:
                return
            config = self._image.log_config_of(key)
            directory.names[name] = None
            shortage: ResourceShortage | None = None
            try:
                opened = await directory.data.open_partition(name, config, directory.noted_watermark(name))
                await directory.note_opened(name, opened.end_offset)
                if opened.failure is not None:
                    raise opened.failure  # it failed before the log had a replica to notify
            except ResourceShortage as error:
                shortage = error
            except CorruptLog as error:
                self._states[key] = Corrupt(directory, name, None)
                self._report_corrupt(key, name, error)
                return
            except DiskFailed as error:
                self._states[key] = Lost(directory, name, None)
                self._fail_directory(directory, error)
                return
        if shortage is not None:
            log.error("log_not_opened_yet", partition=str(name), reason=str(shortage))
            await self._context.clock.sleep_ms(_SHORTAGE_PAUSE_MS)
            return  # the next step retries the same one
        identity = ReplicaIdentity(key, f"{name.topic}-{name.partition}", self._image.broker_id, directory.identity)
        replica = Replica(identity, opened, directory.watermarks.get(name, 0), self._context)
        self._states[key] = Open(directory, name, replica)
        self.replicas[key] = replica
        self.times_configured += 1
        self.look_at(key)

    async def _reconfigure(self, key: PartitionKey, state: Open) -> None:
        with self._noting_failure(state.directory):
            await state.replica.reconfigure(self._image.log_config_of(key))
            self.times_configured += 1
            log.info("log_reconfigured", partition=str(state.name))

    async def _remove(self, key: PartitionKey, state: LogState) -> None:
        """Remove the log: the partition was deleted, or reassigned to other brokers."""
        log.info("log_removed", partition=str(state.name))
        with self._noting_failure(state.directory):  # on failure the log stays on disk, and a restart may find it
            await self._close(state)
            await self._directories.remove(state.directory, state.name)
        self._states.pop(key, None)
        self._configured.pop(key, None)

    async def _discard(self, key: PartitionKey, state: Corrupt) -> None:
        """Remove a corrupt log, so that it can be rebuilt from another replica."""
        log.warning("corrupt_log_discarded", partition=str(state.name))
        with self._noting_failure(state.directory):
            await self._close(state)
            await self._directories.remove(state.directory, state.name)
            self._states.pop(key, None)

    async def _survey(self, key: PartitionKey, state: Corrupt) -> None:
        """Find out what this broker would lead with after an unclean election, while the partition has no leader."""
        with self._noting_failure(state.directory):
            await self._close(state)
            remains = await self._directories.survey(state.directory, state.name)
            now = self._states.get(key)
            if isinstance(now, Corrupt):  # its directory may have failed meanwhile
                self._states[key] = replace(now, is_surveyed=True, remains=remains)
                start, end = (remains.start_offset, remains.end_offset) if remains is not None else (0, 0)
                log.warning("damaged_log_surveyed", partition=str(state.name), start=start, end=end)

    async def _keep_remains(self, key: PartitionKey, state: Corrupt) -> None:
        """Make the readable remains the log, after an unclean election of this broker. The next step opens it."""
        is_compacted = self._image.log_config_of(key).cleanup_compact
        with self._noting_failure(state.directory):
            await self._close(state)
            if not await self._directories.keep_remains(state.directory, state.name, is_compacted=is_compacted):
                await self._directories.quarantine(state.directory, state.name, "corrupt, and abandoned")
            self._states.pop(key, None)

    async def _leave(self, key: PartitionKey, state: Lost) -> None:
        """Close a log in a failed directory and leave its files there. The next step may create one elsewhere."""
        with self._noting_failure(state.directory):
            await self._close(state)
        self._states.pop(key, None)
        self._configured.pop(key, None)

    async def _close(self, state: LogState) -> None:
        replica = state.replica
        if replica is not None:
            replica.retire()
            async with replica.compacting, replica.operations.exclusively():
                if not replica.is_closed:
                    replica.is_closed = True
                    await state.directory.data.close_partition(state.name)

    # -- failures

    @contextmanager
    def _noting_failure(self, directory: LogDirectory) -> Iterator[None]:
        try:
            yield
        except DiskFailed as error:
            self._fail_directory(directory, error)

    def found_corrupt(self, key: PartitionKey, error: CorruptLog) -> None:
        state = self._states.get(key)
        if isinstance(state, Open):
            self._states[key] = Corrupt(state.directory, state.name, state.replica)
            self.replicas.pop(key, None)
            self._report_corrupt(key, state.name, error)

    def disk_failed(self, key: PartitionKey, error: DiskFailed) -> None:
        state = self._states.get(key)
        if isinstance(state, Open | Corrupt):
            self._states[key] = Lost(state.directory, state.name, state.replica)
            self.replicas.pop(key, None)
            self._fail_directory(state.directory, error)

    def _report_corrupt(self, key: PartitionKey, name: PartitionName, error: CorruptLog) -> None:
        log.error("log_is_corrupt", partition=str(name), reason=str(error))
        self._reports.replica_is_corrupt(key, str(error))

    def directory_failed(self, directory: LogDirectory, error: DiskFailed) -> None:
        """Note that a directory failed before any of its logs was opened."""
        self._fail_directory(directory, error)

    def _fail_directory(self, directory: LogDirectory, error: DiskFailed) -> None:
        if not directory.has_failed:
            log.error("directory_failed", path=directory.data.path, reason=str(error))
            self._directories.fail(directory)
            for key, state in list(self._states.items()):
                if isinstance(state, Corrupt) and state.directory is directory:
                    self._states[key] = Lost(directory, state.name, state.replica)
        # Report again for a log that failed late: `is_reported` needs a report that comes after it.
        self._reports.directory_failed(directory.identity, str(error))

    def reported(self, directory_ids: Sequence[UUID], corrupt: Sequence[PartitionKey]) -> None:
        """Note that the controller has acknowledged these failures, and the image shows it."""
        for key, state in list(self._states.items()):
            is_known = isinstance(state, Lost) and state.directory.identity in directory_ids
            if is_known or (isinstance(state, Corrupt) and key in corrupt):
                assert isinstance(state, Lost | Corrupt)
                self._states[key] = replace(state, is_reported=True)
                self.look_at(key)
