"""The logs of this broker's partitions: opened, moved aside, removed and rebuilt as the image says, one step at a time.

What needs the disk is a step, and a partition has one step under way at most: what is next is decided, from the image
as it is then, when the one before it is through. What needs no disk, such as the role of an open replica, is not waited
with.
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

# -- how it is with a partition's log; there is no state of one that has none


@dataclass(frozen=True, slots=True)
class Open:
    directory: LogDirectory
    name: PartitionName
    replica: Replica


@dataclass(frozen=True, slots=True)
class Corrupt:
    """`replica`: that has the log open, if it could be opened at all. `is_reported`: the controller knows, and the
    image shows it. `remains`: what an unclean election would have of it, once that `is_surveyed`; None: nothing."""

    directory: LogDirectory
    name: PartitionName
    replica: Replica | None
    is_reported: bool = False
    is_surveyed: bool = False
    remains: Remains | None = None


@dataclass(frozen=True, slots=True)
class Lost:
    """Its directory has failed; otherwise as `Corrupt`."""

    directory: LogDirectory
    name: PartitionName
    replica: Replica | None
    is_reported: bool = False


LogState: TypeAlias = Open | Corrupt | Lost

Spawn: TypeAlias = Callable[[Coroutine[Any, Any, None], str], "asyncio.Task[None]"]


class LogLifecycle:
    """`look_at` a partition whenever something about it may be different. `spawn` begins a task of the broker's."""

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
        self._configured: dict[PartitionKey, LogConfig] = {}  # what was last found to be in force
        self.replicas: dict[PartitionKey, Replica] = {}  # those that are open, sound and wanted
        self.times_configured = 0  # how often a log was opened, or given another configuration

    # -- what is there

    def known(self) -> list[PartitionKey]:
        """Of all partitions that have anything here."""
        return list({**self._states, **self._tended})

    def state_of(self, key: PartitionKey) -> LogState | None:
        return self._states.get(key)

    def open_in(self, directory: LogDirectory) -> Iterator[tuple[PartitionName, Replica]]:
        for state in self._states.values():
            if isinstance(state, Open) and state.directory is directory:
                yield state.name, state.replica

    async def settled(self) -> None:
        """Return when no step is under way; new ones may begin meanwhile."""
        tasks = list(self._tended.values())
        if tasks:
            await asyncio.wait(tasks)

    # -- what is wanted

    def look_at(self, key: PartitionKey) -> None:
        """See what the image wants of the partition, and do it, or begin to."""
        if not self._image.may_act:
            if (replica := self.replicas.get(key)) is not None:
                replica.take(None)
            return
        state = self._states.get(key)
        if isinstance(state, Open):
            replica, assignment = state.replica, self._image.wanted(key)
            if assignment is None:
                self.replicas.pop(key, None)
            elif not replica.has_failed:  # nor is it about to be closed
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
        """What is to be done with the disk, if anything."""
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
        """Does nobody count on what was here any more? Another leads; or it was given up, by an unclean election of
        this very broker."""
        own = self._image.broker_id
        if self._counts(partition) and partition.leader != own:
            return False
        if partition.leader == own:
            return partition.unclean_epoch == partition.leader_epoch
        return partition.leader is not None

    def _report_again_if_it_counts(self, key: PartitionKey, state: Corrupt) -> None:
        """Its leader may have brought it back into the ISR, by what it knew from before."""
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
                    raise opened.failure  # before there was anybody to be told
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
            return  # the next step is the same one
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
        """The partition is deleted, or has moved elsewhere."""
        log.info("log_removed", partition=str(state.name))
        with self._noting_failure(state.directory):  # then it stays, and is found again if the disk is
            await self._close(state)
            await self._directories.remove(state.directory, state.name)
        self._states.pop(key, None)
        self._configured.pop(key, None)

    async def _discard(self, key: PartitionKey, state: Corrupt) -> None:
        """So that it can be made anew, from another's."""
        log.warning("corrupt_log_discarded", partition=str(state.name))
        with self._noting_failure(state.directory):
            await self._close(state)
            await self._directories.remove(state.directory, state.name)
            self._states.pop(key, None)

    async def _survey(self, key: PartitionKey, state: Corrupt) -> None:
        """Nobody leads: see what this broker would lead with, if it were elected all the same."""
        with self._noting_failure(state.directory):
            await self._close(state)
            remains = await self._directories.survey(state.directory, state.name)
            now = self._states.get(key)
            if isinstance(now, Corrupt):  # and not lost with its directory
                self._states[key] = replace(now, is_surveyed=True, remains=remains)
                start, end = (remains.start_offset, remains.end_offset) if remains is not None else (0, 0)
                log.warning("damaged_log_surveyed", partition=str(state.name), start=start, end=end)

    async def _keep_remains(self, key: PartitionKey, state: Corrupt) -> None:
        """It was elected uncleanly: what can be read of it is the log from now on, to be opened next."""
        is_compacted = self._image.log_config_of(key).cleanup_compact
        with self._noting_failure(state.directory):
            await self._close(state)
            if not await self._directories.keep_remains(state.directory, state.name, is_compacted=is_compacted):
                await self._directories.quarantine(state.directory, state.name, "corrupt, and given up")
            self._states.pop(key, None)

    async def _leave(self, key: PartitionKey, state: Lost) -> None:
        """What is in a failed directory stays there. A log may be made elsewhere."""
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

    # -- what breaks

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
        """Before anything of it was opened."""
        self._fail_directory(directory, error)

    def _fail_directory(self, directory: LogDirectory, error: DiskFailed) -> None:
        if not directory.has_failed:
            log.error("directory_failed", path=directory.data.path, reason=str(error))
            self._directories.fail(directory)
            for key, state in list(self._states.items()):
                if isinstance(state, Corrupt) and state.directory is directory:
                    self._states[key] = Lost(directory, state.name, state.replica)
        # Again for one that comes late: it is not known to be reported before the report that follows.
        self._reports.directory_failed(directory.identity, str(error))

    def reported(self, directory_ids: Sequence[UUID], corrupt: Sequence[PartitionKey]) -> None:
        """The controller knows of these, and the image shows it."""
        for key, state in list(self._states.items()):
            is_known = isinstance(state, Lost) and state.directory.identity in directory_ids
            if is_known or (isinstance(state, Corrupt) and key in corrupt):
                assert isinstance(state, Lost | Corrupt)
                self._states[key] = replace(state, is_reported=True)
                self.look_at(key)
