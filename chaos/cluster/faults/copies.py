"""Copies of a simulated broker's data directories, taken while it is down, for an operator to restore later."""

from dataclasses import dataclass
from uuid import UUID

from lograft.chaos.cluster.world.node import SimulatedHost
from lograft.chaos.world.power_loss import DirectoryNode
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.storage.log.data_directory import IDENTITY_FILE, mark_restored
from lograft.storage.state.used_epoch import read_use


@dataclass(frozen=True, slots=True)
class DirectoryCopy:
    """The content of the directory at `path`, and its identity."""

    path: str
    identity: UUID
    content: DirectoryNode


class Copies:
    """`take` copies the present directories; `put_back` restores a copy, whatever has happened since."""

    def __init__(self) -> None:
        self._of: dict[SimulatedHost, list[DirectoryCopy]] = {}

    def of(self, host: SimulatedHost) -> list[DirectoryCopy]:
        """Return the latest copy of each of its directories."""
        return self._of.get(host, [])

    def take(self, host: SimulatedHost) -> None:
        assert not host.is_up
        copies = []
        for path in host.config.data_dirs:
            if host.files.exists(f"{path}/{IDENTITY_FILE}") and (identity := host.directory_id(path)) is not None:
                copies.append(DirectoryCopy(path, identity, host.files.copy_directory(path)))
        self._of[host] = copies

    def put_back(self, host: SimulatedHost, copy: DirectoryCopy, image: ClusterImage) -> bool:
        """Restore a copy. Return whether it had to be marked as restored: within the epoch of its last use, no other
        node can detect that."""
        assert not host.is_up
        host.files.put_back(copy.path, copy.content)
        used, confirmed = read_use(host.files, copy.path).used_epoch, image.confirmed.get(copy.identity)
        if confirmed is not None and used is not None and used < confirmed:
            return False
        mark_restored(host.files, copy.path)
        return True
