"""What commands tell of the room on brokers' disks."""

from dataclasses import replace
from uuid import UUID

from lograft.cli.output.resource_output import resource
from lograft.cli.resources.disk_resources import disk_problems, disk_status, free_text, is_any_full, with_loads
from lograft.clients.admin.model.types import BrokerLoad, DiskRoom

ROOM = DiskRoom(UUID(int=7), "/d1", 50_000_000_000, 100_000_000_000, 1_000_000_000, is_full=False)
FULL = replace(ROOM, path="/d2", free_bytes=900_000_000, is_full=True)


def load(broker_id: int, *disks: DiskRoom) -> BrokerLoad:
    return BrokerLoad(broker_id, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, None, 0, (), disks)


def test_each_broker_has_its_disks_and_one_that_does_not_answer_has_none() -> None:
    brokers = [resource("Broker", {"name": str(number), "id": number}, status={}) for number in (1, 2)]
    first, second = with_loads(brokers, [load(1, ROOM, FULL)])
    assert free_text(first) == "50 GB,900 MB (full)"
    assert is_any_full(first)
    assert second["status"]["disks"] is None
    assert free_text(second) is None
    assert (first["status"]["uptimeMs"], second["status"]["uptimeMs"]) == (1, None)
    assert not is_any_full(second)
    assert disk_status(load(1, FULL)) == [
        {
            "directory": str(UUID(int=7)),
            "path": "/d2",
            "freeBytes": 900_000_000,
            "totalBytes": 100_000_000_000,
            "reserveBytes": 1_000_000_000,
            "full": True,
        }
    ]


def test_a_full_disk_is_a_problem_and_one_with_room_is_none() -> None:
    assert disk_problems([load(1, ROOM), load(2, ROOM, FULL)]) == [
        "broker 2 rejects writes to /d2: 900 MB free, below its reserve of 1 GB; free space on that disk"
    ]
