"""Failed directories and corrupt replicas, reported to the controller until it acknowledges."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias
from uuid import UUID

from lograft.metadata.image.partition import PartitionKey
from lograft.rpc.coded_error import ControllerError
from lograft.runtime.observability.logging import get_logger
from lograft.runtime.tasks.retry import Complaints, ExponentialWait, retrying
from lograft.runtime.world import Runtime

log = get_logger(__name__)

_FIRST_RETRY_MS = 100
_LAST_RETRY_MS = 2000

Report: TypeAlias = Callable[[Sequence[UUID], Sequence[PartitionKey], str], Awaitable[int]]
"""Takes directories, corrupt replicas and the reason. Returns the metadata index at which they have left the ISRs."""
Reported: TypeAlias = Callable[[Sequence[UUID], Sequence[PartitionKey]], None]


class FailureReports:
    """Calls `reported` once the controller has acknowledged and the local image shows it. Nothing may be discarded
    earlier."""

    def __init__(
        self, runtime: Runtime, report: Report, wait_for: Callable[[int], Awaitable[None]], reported: Reported
    ) -> None:
        self._runtime = runtime
        self._report = report
        self._wait_for = wait_for
        self._reported = reported
        self._directories: dict[UUID, str] = {}
        self._corrupt: dict[PartitionKey, str] = {}
        self._has_any = asyncio.Event()
        self._complaints = Complaints(log, "failure_report_failed")

    def directory_failed(self, directory_id: UUID, reason: str) -> None:
        self._directories[directory_id] = reason
        self._has_any.set()

    def replica_is_corrupt(self, key: PartitionKey, reason: str) -> None:
        self._corrupt[key] = reason
        self._has_any.set()

    async def run(self) -> None:
        """Report until cancelled."""
        while True:
            wait = ExponentialWait(self._runtime.rng, _FIRST_RETRY_MS, _LAST_RETRY_MS)
            await retrying(self._runtime.clock, wait, on=ControllerError)(self._report_all)

    async def _report_all(self) -> None:
        """Wait for failures, and report all of them. Raise `ControllerError` if the controller refuses."""
        await self._has_any.wait()
        directories, corrupt = list(self._directories), list(self._corrupt)
        reason = next(iter([*self._directories.values(), *self._corrupt.values()]))
        try:
            index = await self._report(directories, corrupt, reason)
        except ControllerError as error:
            self._complaints.complain(str(error.code), error.message)
            raise
        self._complaints.succeeded()
        self._forget(directories, corrupt)
        await self._wait_for(index)
        self._reported(directories, corrupt)

    def _forget(self, directories: Sequence[UUID], corrupt: Sequence[PartitionKey]) -> None:
        for directory_id in directories:
            del self._directories[directory_id]
        for key in corrupt:
            del self._corrupt[key]
        if not self._directories and not self._corrupt:
            self._has_any.clear()
