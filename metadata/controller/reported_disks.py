"""Full data directories, as brokers report with their heartbeats. Kept in memory only: a new active controller learns
them from the next heartbeats."""

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from lograft.metadata.controller.broker_liveness import Process
from lograft.metadata.decisions.topics.disk_room import DiskRoom
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerEpoch, BrokerId, Replica
from lograft.proto.controller_pb2 import BrokerHeartbeatRequest
from lograft.rpc.request_limits import read_uuid


@dataclass(frozen=True, slots=True)
class _Report:
    """`full`: maps each full directory to whether it is critical."""

    epoch: BrokerEpoch
    full: dict[UUID, bool]


class ReportedDisks:
    """The latest report of each broker's present process. It holds at most one report for each registered broker."""

    def __init__(self) -> None:
        self.on_change: Callable[[], None] = lambda: None
        self._reports: dict[BrokerId, _Report] = {}

    def note(self, process: Process, heartbeat: BrokerHeartbeatRequest, image: ClusterImage) -> None:
        """Take note of a heartbeat's report. Ignore a process that is not its broker's latest registration in `image`.
        Raise INVALID_REQUEST if a directory id is no UUID."""
        broker_id, epoch = process
        self._reports = {one: report for one, report in self._reports.items() if _is_present(image, one, report.epoch)}
        if not _is_present(image, broker_id, epoch):
            return
        before = self._reports.get(broker_id)
        if not heartbeat.HasField("full_directories"):
            self._reports.pop(broker_id, None)
        else:
            directories = heartbeat.full_directories.directories
            full = {read_uuid(one.directory_id, "full_directories"): one.is_critical for one in directories}
            self._reports[broker_id] = _Report(epoch, full)
        if (before.full if before is not None else {}) != self._full_on(broker_id):
            self.on_change()

    def room(self, image: ClusterImage) -> DiskRoom:
        """Return the reports of the processes that are registered in `image`."""
        return DiskRoom(
            {
                Replica(broker_id, directory_id): is_critical
                for broker_id, report in self._reports.items()
                if _is_present(image, broker_id, report.epoch)
                for directory_id, is_critical in report.full.items()
            }
        )

    def _full_on(self, broker_id: BrokerId) -> dict[UUID, bool]:
        report = self._reports.get(broker_id)
        return report.full if report is not None else {}


def _is_present(image: ClusterImage, broker_id: BrokerId, epoch: BrokerEpoch) -> bool:
    broker = image.brokers.get(broker_id)
    return broker is not None and broker.epoch == epoch
