"""Which watermarks a directory notes: those of the logs that it has."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from support.raft_nodes import virtual

from lograft.broker.hosting.log_directories import LogDirectory
from lograft.storage.files.file_names import PartitionName

MOVED, KEPT = PartitionName("orders", 0, UUID(int=1)), PartitionName("orders", 1, UUID(int=1))


class Data:
    """What was written."""

    def __init__(self) -> None:
        self.noted: Mapping[PartitionName, int] = {}

    async def write_high_watermarks(self, watermarks: Mapping[PartitionName, int]) -> None:
        self.noted = dict(watermarks)


@virtual
async def test_a_log_whose_files_go_is_not_noted_again_and_so_not_missed_when_it_comes_back() -> None:
    """The upkeep still finds its replica: removing many files takes a while."""
    data: Any = Data()
    directory = LogDirectory(data, names={MOVED: None, KEPT: None})
    await directory.note_watermarks({MOVED: 5, KEPT: 7})
    assert data.noted == {MOVED: 5, KEPT: 7}
    directory.names.pop(MOVED)
    directory.gone[MOVED] = None
    await directory.forget_gone()
    await directory.note_watermarks({MOVED: 5, KEPT: 8})
    assert data.noted == {KEPT: 8}
    assert directory.noted_watermark(MOVED) is None
