"""Free space on the disks of brokers. Pure."""

from collections.abc import Iterable, Sequence

from lograft.cli.common.units import size_text
from lograft.cli.output.resource_output import Resource
from lograft.clients.admin.model.types import BrokerLoad, DiskRoom


def disk_status(load: BrokerLoad | None) -> list[Resource] | None:
    """Return the usable data directories, or None if the broker did not answer."""
    if load is None:
        return None
    return [
        {
            "directory": str(disk.directory),
            "path": disk.path,
            "freeBytes": disk.free_bytes,
            "totalBytes": disk.total_bytes,
            "reserveBytes": disk.reserve_bytes,
            "full": disk.is_full,
        }
        for disk in load.disks
    ]


def with_loads(found: Sequence[Resource], loads: Iterable[BrokerLoad]) -> list[Resource]:
    """Add disks and uptime to brokers; None for those that did not answer."""
    by_id = {load.id: load for load in loads}
    for each in found:
        load = by_id.get(each["metadata"]["id"])
        each["status"]["disks"] = disk_status(load)
        each["status"]["uptimeMs"] = load.uptime_ms if load is not None else None
    return list(found)


def free_text(broker: Resource) -> str | None:
    """Return the free space of each disk as a table cell, or None if unknown."""
    disks = broker["status"].get("disks")
    if not disks:
        return None
    return ",".join(room_text(disk["freeBytes"], is_full=disk["full"]) or "" for disk in disks)


def room_text(free_bytes: int | None, *, is_full: bool) -> str | None:
    """Return the free space of a disk, marked if it is full; None if unknown."""
    free = size_text(free_bytes)
    return f"{free} (full)" if is_full and free is not None else free


def is_any_full(broker: Resource) -> bool:
    return any(disk["full"] for disk in broker["status"].get("disks") or ())


def disk_problems(loads: Iterable[BrokerLoad]) -> list[str]:
    """Return the full disks, which cause brokers to reject writes."""
    return [_problem(load.id, disk) for load in loads for disk in load.disks if disk.is_full]


def _problem(broker_id: int, disk: DiskRoom) -> str:
    return (
        f"broker {broker_id} rejects writes to {disk.path}: {size_text(disk.free_bytes)} free, below its reserve of "
        f"{size_text(disk.reserve_bytes)}; free space on that disk"
    )
