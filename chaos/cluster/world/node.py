"""A simulated node: the complete production node, on in-memory disks that outlive it."""

import asyncio
import errno
from collections.abc import Callable, Collection
from contextvars import Context
from dataclasses import replace
from typing import Protocol
from uuid import UUID

from lograft.broker.hosting.maintenance import MaintenanceTimes
from lograft.broker.hosting.replica_manager import AllDirectoriesFailed
from lograft.broker.node.config import NodeConfig
from lograft.broker.node.config_values import Role
from lograft.broker.node.node import HostProcess, Node
from lograft.broker.replica.replica import Replica
from lograft.chaos.harness.schedule import Detail
from lograft.chaos.world.crash import calling_code, is_simulated_crash, without_numbers
from lograft.chaos.world.files import VirtualFiles
from lograft.chaos.world.loop import VirtualClock, VirtualLoop
from lograft.chaos.world.network import VirtualNetwork
from lograft.chaos.world.process import Process
from lograft.chaos.world.raft_store import Content, MemoryDisk, MemoryStore
from lograft.chaos.world.workers import DiskSpeed, VirtualBlocking, VirtualWorkers
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import TopicId
from lograft.raft.core.configuration import Configuration
from lograft.raft.core.roles import Leader
from lograft.raft.interfaces import Store
from lograft.runtime.files import parent_of
from lograft.runtime.rng import Rng
from lograft.runtime.world import Runtime
from lograft.storage.files.sealed_file import unseal
from lograft.storage.log.data_directory import IDENTITY_FILE, IDENTITY_KIND

CLUSTER_ID = "simulated"
CLUSTER_SECRET = b"what every simulated node is told"
BROKER_PORT = 9092
CONTROLLER_PORT = 9093
NODES_PORT = 9094


class NodeEnvironment(Protocol):
    """The simulation around a node."""

    network: VirtualNetwork

    def note(self, event: str, *details: Detail) -> None: ...

    def failed(self, error: BaseException) -> None:
        """Report an error that must never happen."""
        ...

    def may_lose_power(self, host: "SimulatedHost") -> bool:
        """Return whether a promise covers this power failure."""
        ...

    def crashed_in(self, place: str) -> None:
        """Note a crash in a disk call, and the code that made the call."""
        ...

    def about_to_end(self, host: "SimulatedHost") -> None:
        """Note that its process is about to end: this is the last chance to inspect its state."""
        ...


class SimulatedHost:
    """A machine, and its node, which may be down. `life` counts its processes, and `boots` its starts."""

    def __init__(self, config: NodeConfig, upkeep: MaintenanceTimes, world: NodeEnvironment, rng: Rng) -> None:
        self.number = config.node_id
        self.host = f"n{self.number}"
        self.config = config
        self._upkeep = upkeep
        self.clock = VirtualClock(asyncio.get_running_loop())
        self.speed = DiskSpeed(rng.fork())
        self.files = VirtualFiles(rng.fork())
        self.files.on_crash(self._crash_soon)
        self.disk = MemoryDisk(CLUSTER_ID, self.number, rng.fork())
        self.node: Node | None = None
        self.life = 0
        self.boots = 1
        self.is_expected = True  # False: not installed yet
        self.has_disk_trouble = False  # until the next start
        self.is_full = False  # a directory or the whole disk, until there is room again
        self._away: dict[str, None] = {}  # directories that it lacks at present
        self.lost_stores: list[UUID] = []
        self.has_old_store = False  # restored from a copy, and not replaced yet
        self.on_end: Callable[[], None] | None = None  # called once, after its process has ended
        self._broken_directories: list[str] = []  # to be replaced before the next start
        self._world = world
        self._rng = rng
        self._task: asyncio.Task[None] | None = None
        self._process = Process()
        self._workers: VirtualWorkers | None = None
        self._blocking: VirtualBlocking | None = None
        self._store: MemoryStore | None = None

    # -- state

    @property
    def is_up(self) -> bool:
        return self._task is not None

    @property
    def is_paused(self) -> bool:
        return self._process.is_stopped

    @property
    def is_broker(self) -> bool:
        return Role.BROKER in self.config.roles

    @property
    def process(self) -> str:
        """The name of its present life."""
        return f"{self.host}#{self.life}"

    @property
    def address(self) -> str:
        assert self.config.listen is not None
        return self.config.listen

    @property
    def image(self) -> ClusterImage | None:
        """The image of its controller."""
        controller = self.node.controller if self.node is not None else None
        return controller.node.machine.image if controller is not None else None

    @property
    def leads_quorum(self) -> bool:
        controller = self.node.controller if self.node is not None else None
        raft = controller.node.raft if controller is not None else None
        return raft is not None and isinstance(raft.core.role, Leader)

    @property
    def quorum(self) -> Configuration | None:
        """The voters known to its controller."""
        controller = self.node.controller if self.node is not None else None
        raft = controller.node.raft if controller is not None else None
        return raft.status().configuration if raft is not None else None

    # -- lives

    def start(self) -> None:
        assert self._task is None
        self._mend_disks()
        self.life += 1
        self._world.note("start", self.process)
        self._process = Process()
        self._workers = VirtualWorkers(self._rng.fork(), self.speed)
        self._blocking = VirtualBlocking(self.speed)
        network = self._world.network.host(self.host)
        runtime = Runtime(self.clock, self._rng.fork(), self.files, network, self._blocking, self._workers)
        machine = HostProcess(f"boot{self.boots}", self._open_store)
        self.node = Node(runtime, self._config_without_away(), machine, self._panicked, self._upkeep)
        self._task = asyncio.get_running_loop().create_task(
            self.node.run(), name=self.process, context=self._process.context
        )
        self._task.add_done_callback(self._ended)

    def _config_without_away(self) -> NodeConfig:
        present = tuple(directory for directory in self.config.data_dirs if directory not in self._away)
        return replace(self.config, data_dirs=present)

    async def _open_store(self, runtime: Runtime, directory: str, cluster_id: str, node_id: int) -> Store:
        self._store = self.disk.open(self.speed, self._rng.fork())
        return self._store

    def stop(self) -> None:
        """Ask the process to shut down in an orderly way. It is up until it has."""
        if self.node is not None:
            self.node.stop()

    def pause(self) -> None:
        """Send SIGSTOP: none of its code runs for a while. Its connections remain, and its time continues."""
        self._process.stop()

    def resume(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.let_go_on(self._process, self._rng)

    def kill(self) -> None:
        """Kill the process: none of its code runs from now on. The kernel keeps its data and closes its connections."""
        self._end()
        self._world.network.crash(self.host)
        self.files.process_crash()
        self._has_ended()

    def lose_power(self) -> None:
        """Cut the power, whether the node is up or not. Unsynced data is lost, kept, or torn. Peers notice nothing."""
        if self.is_up:
            self._end()
        self._world.network.vanish(self.host)
        self.files.power_failure()
        self.boots += 1
        self._has_ended()

    def _has_ended(self) -> None:
        on_end, self.on_end = self.on_end, None
        if on_end is not None:
            on_end()

    def _end(self) -> None:
        assert self._task is not None
        assert self._workers is not None
        assert self._blocking is not None
        self._world.about_to_end(self)
        if self._process.is_stopped:
            self.resume()  # unwinding code must not be held
        task, self._task = self._task, None
        self.node = None
        self._workers.kill()
        self._blocking.kill()
        if self._store is not None:
            self._store.kill()
            self._store = None
        task.cancel()

    def _crash_soon(self, call: str) -> None:
        self._world.crashed_in(f"{calling_code()}: {without_numbers(call)}")
        asyncio.get_running_loop().call_soon(self._crashed, call, context=Context())

    def _crashed(self, call: str) -> None:
        """Handle an armed crash, which came in a disk call."""
        if self.is_up and self.files.crashed:
            self._world.note("crashed", self.process, call)
            if self._rng.random() < 0.5 and self._world.may_lose_power(self):
                self.lose_power()
            else:
                self.kill()

    def _ended(self, task: "asyncio.Task[None]") -> None:
        error = None if task.cancelled() else task.exception()
        if self._task is not task:
            if error is not None and not is_simulated_crash(error):
                self._world.failed(error)  # errors of a dead process must not matter, but this one looks as if it might
            return
        if error is not None and is_simulated_crash(error):
            return  # it is about to be ended
        if error is not None and not isinstance(error, AllDirectoriesFailed):
            error.add_note(f"in {self.process}")
            self._world.failed(error)
        self._world.about_to_end(self)
        self._world.note("exit", self.process, str(error) if error is not None else "")
        self._task = self.node = self._store = None
        self._world.network.crash(self.host)
        self.files.process_crash()
        self._has_ended()

    def _panicked(self, error: BaseException) -> None:
        if not is_simulated_crash(error):
            error.add_note(f"in a handler of {self.process}")
            self._world.failed(error)

    # -- disks

    def disarm(self) -> None:
        """Disarm crashes in disk calls."""
        if not self.files.crashed:
            self.files.points.restart()

    def forget_tails(self) -> None:
        """Drop the log tails that the broker keeps in memory: they are read from the disk from now on."""
        if self.node is not None and self.node.broker is not None:
            for replica in self.node.broker.replicas._logs.replicas.values():
                kept_bytes = replica.log.tail.limit_bytes
                replica.log.keep_in_memory(0)
                replica.log.keep_in_memory(kept_bytes)

    def fail_sync(self, directory: str) -> None:
        """Make the next sync there fail. Its data is lost, although it still reads back. The disk will be replaced."""
        self.files.fail_next_sync(f"{directory}/")
        self._broken_directories.append(directory)
        self.has_disk_trouble = True

    def fail_writes(self, directory: str) -> None:
        self.files.fail_writes(f"{directory}/")
        self.has_disk_trouble = True

    def fill_directory(self, directory: str) -> None:
        """Leave no room for later writes."""
        self.files.fail_writes(f"{directory}/", errno.ENOSPC)
        self.is_full = True

    def fill_disk(self, room_bytes: int) -> None:
        """Leave only this much room, for all directories together."""
        self.files.set_capacity(self.files.used_bytes() + room_bytes)
        self.is_full = True

    def make_room(self) -> None:
        """Restore the room. The node has to notice that itself."""
        if self.is_full:
            self.is_full = False
            self.files.set_capacity(None)
            self.files.fail_writes(None)

    def _mend_disks(self) -> None:
        self.has_disk_trouble = self.is_full = False
        self.files.set_capacity(None)
        self.files.fail_writes(None)
        if self._broken_directories:
            self.files.fail_no_sync()  # they belong to disks that are gone
        for directory in self._broken_directories:
            self.wipe(directory)
        self._broken_directories.clear()

    @property
    def lacks_directories(self) -> bool:
        return bool(self._away)

    def take_away(self, directory: str) -> None:
        """Start without this directory and its content, from the next start on, until `put_back`."""
        self._away[directory] = None

    def put_back(self) -> None:
        """Restore all directories, from the next start on."""
        self._away.clear()

    def wipe_store(self) -> None:
        """Replace the disk with the metadata by an empty one."""
        assert not self.is_up
        self._world.note("wipe_store", self.host)
        self.lost_stores.append(self.disk.content.identity.directory_id)
        self.disk.wipe()
        self.has_old_store = False

    def put_store_back(self, copy: Content) -> None:
        """Restore an old state of the metadata, and of all votes of the controller."""
        assert not self.is_up
        self._world.note("put_store_back", self.host, copy.starts.count)
        self.disk.put_back(copy)
        self.has_old_store = True

    def directory_id(self, directory: str) -> UUID | None:
        """Return the directory's id in the metadata, or None if it was never used."""
        content = dict(self.files.contents(f"{directory}/{IDENTITY_FILE}")).get(f"{directory}/{IDENTITY_FILE}")
        return UUID(unseal(IDENTITY_KIND, content).decode().strip()) if content else None

    def wipe(self, directory: str) -> None:
        """Replace the disk by an empty one."""
        assert not self.is_up
        if self.files.exists(directory):
            self._world.note("wipe", self.host, directory)
            self._remove(directory)
            self.files.sync_directory("/")

    def replica(self, key: tuple[UUID, int]) -> Replica | None:
        """Return the replica of a partition, if it is open."""
        if self.node is None or self.node.broker is None:
            return None
        return self.node.broker.replicas.find((TopicId(key[0]), key[1]))

    def lose_files(self, directory: str, names: Collection[str]) -> None:
        """Remove files of a partition, and its directory, too, if no file is left."""
        assert not self.is_up
        self._world.note("lose_files", self.host, directory, *names)
        files = self.files
        for name in names:
            files.remove(f"{directory}/{name}")
        if not files.list_directory(directory):
            files.remove_directory(directory)
            files.sync_directory(parent_of(directory))
        else:
            files.sync_directory(directory)

    def _remove(self, directory: str) -> None:
        files = self.files
        for name in files.list_directory(directory):
            path = f"{directory}/{name}"
            try:
                files.remove(path)
            except IsADirectoryError:
                self._remove(path)
        files.remove_directory(directory)
