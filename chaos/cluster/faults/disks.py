"""Disk faults of a simulated cluster: disks are slow, full or failing, are lost, or rot."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol
from uuid import UUID

from lograft.broker.replica.replica import Replica
from lograft.chaos.cluster.checks.history import PartitionKey
from lograft.chaos.cluster.faults.allowed_losses import Losses, LostDirectories, LostFiles, LostMemory, Rot
from lograft.chaos.cluster.faults.copies import Copies
from lograft.chaos.cluster.faults.network import Plan
from lograft.chaos.cluster.world.node import SimulatedHost
from lograft.chaos.cluster.world.quorum import may_lose_store, may_put_store_back
from lograft.chaos.cluster.world.weather import ClusterWeather
from lograft.chaos.harness.schedule import Detail
from lograft.chaos.world.raft_store import Content
from lograft.metadata.image.broker import Broker
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerId, TopicId
from lograft.runtime.files import parent_of
from lograft.runtime.rng import Rng
from lograft.storage.batch.codec import iterate_batches
from lograft.storage.errors import InvalidBatch
from lograft.storage.files.file_names import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    PRODUCERS_SUFFIX,
    TIME_INDEX_SUFFIX,
    parse_numbered,
)
from lograft.storage.state.checkpoint import CHECKPOINT_FILE, EPOCHS_FILE
from lograft.storage.state.used_epoch import USED_EPOCH_FILE
from lograft.storage.state.watermarks_file import WATERMARKS_FILE

_DERIVED = "derived"  # rebuilt when damaged, so that nothing is lost


class DiskTarget(Protocol):
    weather: ClusterWeather
    hosts: list[SimulatedHost]
    losses: Losses

    @property
    def image(self) -> ClusterImage: ...

    def note(self, event: str, *details: Detail) -> None: ...


class DiskFaults:
    """Injects disk faults. `end` ends a host's process in a given way, and plans its restart."""

    def __init__(self, cluster: DiskTarget, rng: Rng, end: Callable[[SimulatedHost, str], None], plan: Plan) -> None:
        self._cluster = cluster
        self._rng = rng
        self._copies = Copies()
        self._store_copies: dict[SimulatedHost, Content] = {}
        self._end = end
        self._plan = plan

    def faults(self) -> dict[str, Callable[[], None]]:
        return {
            "slow_disk": self._slow_disk,
            "forget_tails": self._forget_tails,
            "fill_disk": self._fill_disk,
            "fail_writes": self._fail_writes,
            "fill_directory": self._fill_directory,
            "take_away": self._take_away,
            "wipe_store": self._wipe_store,
            "wipe": self._wipe,
            "fail_sync": self._fail_sync,
            "rot": self._rot,
            "copy_store": self._copy_store,
            "put_store_back": self._put_store_back,
            "copy": self._copy,
            "put_copy_back": self._put_copies_back,
            "lose_files": self._lose_files,
        }

    def may_lose_power(self, host: SimulatedHost) -> bool:
        """Return whether a host may lose power. With a trusted page cache that is a loss, which is recorded."""
        if self._cluster.weather.flush_mode != "os" or not host.is_broker:
            return True
        broker = self._cluster.image.brokers.get(BrokerId(host.number))
        if broker is None or not self._cluster.losses.may_lose(host.number):
            return False
        self._cluster.losses.add(LostMemory(BrokerId(host.number), broker.epoch))
        return True

    def _may_be_away(self, host: SimulatedHost, directories: Sequence[str]) -> bool:
        """Return whether directories may be missing for a while. With a trusted page cache, a directory that returns is
        not trusted, because its history is unknown. That is a loss, which is recorded."""
        if self._cluster.weather.flush_mode != "os":
            return True
        if not self._cluster.losses.may_lose(host.number):
            return False
        for directory in directories:
            self._note_lost(host, directory)
        return True

    # -- temporary faults

    def _slow_disk(self) -> None:
        self._rng.choice(self._cluster.hosts).speed.slowdown = self._rng.choice([1.0, 10.0, 100.0])

    def _forget_tails(self) -> None:
        """Drop a broker's in-memory log tails, so that it reads everything from its disk."""
        if (host := self._any_broker_up()) is not None:
            self._cluster.note("forget_tails", host.process)
            host.forget_tails()

    def _fill_disk(self) -> None:
        """Fill a disk for a while. It has room for a few more writes or part of one; for none; or for none but the
        reserve that users may not use up."""
        host = self._any_broker_up()
        if host is not None and not host.is_full and not host.has_disk_trouble:
            room_bytes = self._rng.choice([0, 200, 2_000, 1 << 20])
            self._cluster.note("fill_disk", host.process, room_bytes)
            host.fill_disk(room_bytes)
            self._plan(self._rng.choice([300, 1500, 5000, 12_000]), lambda: self._make_room(host))

    def _make_room(self, host: SimulatedHost) -> None:
        if host.is_full:
            self._cluster.note("make_room", host.process)
            host.make_room()

    def _fail_writes(self) -> None:
        """Fail writes in one directory until the next start."""
        host = self._any_broker_up()
        directory = self._rng.choice(host.config.data_dirs) if host is not None else ""
        if host is not None and not host.is_full and self._may_be_away(host, [directory]):
            self._cluster.note("fail_writes", host.process, directory)
            host.fail_writes(directory)

    def _fill_directory(self) -> None:
        """Fill one directory for a while. The others have room."""
        host = self._any_broker_up()
        if host is not None and not host.is_full and not host.has_disk_trouble:
            directory = self._rng.choice(host.config.data_dirs)
            self._cluster.note("fill_directory", host.process, directory)
            host.fill_directory(directory)
            self._plan(self._rng.choice([300, 1500, 5000]), lambda: self._make_room(host))

    def _take_away(self) -> None:
        """Start a broker without one of its directories, and later with it. Its content has missed everything that
        happened meanwhile. Exclude the first directory of a controller, which on real nodes has the metadata."""
        host = self._any_broker_up()
        if host is None or host.lacks_directories or len(host.config.data_dirs) < 2:
            return
        directory = self._rng.choice(host.config.data_dirs[1 if host.config.is_controller else 0 :])
        if not self._may_be_away(host, [directory]):
            return
        self._cluster.note("take_away", host.process, directory)
        self._end(host, "kill")
        host.take_away(directory)
        self._plan(self._rng.choice([1500, 4000, 8000]), lambda: self._put_back(host))

    def _put_back(self, host: SimulatedHost) -> None:
        self._cluster.note("put_back", host.process)
        host.put_back()
        if host.is_up:
            self._end(host, "kill")

    def _any_broker_up(self) -> SimulatedHost | None:
        up = [host for host in self._cluster.hosts if host.is_up and host.is_broker]
        return self._rng.choice(up) if up else None

    # -- losses

    def _wipe(self) -> None:
        host = self._any_expendable()
        if host is None:
            return
        if host.is_up:
            self._end(host, "kill")
        for directory in host.config.data_dirs:
            if self._rng.random() < 0.7:
                self._note_lost(host, directory)
                host.wipe(directory)

    def _wipe_store(self) -> None:
        """Lose a controller's metadata and all its votes."""
        if may_lose_store(self._cluster.hosts):
            host = self._rng.choice([host for host in self._cluster.hosts if host.config.is_controller])
            if host.is_up:
                self._end(host, "kill")
            host.wipe_store()

    def _fail_sync(self) -> None:
        host = self._any_expendable()
        if host is not None and host.is_up:
            directory = self._rng.choice(host.config.data_dirs)
            self._cluster.note("fail_sync", host.process, directory)
            self._note_lost(host, directory)
            host.fail_sync(directory)

    def _note_lost(self, host: SimulatedHost, directory: str, *, but: UUID | None = None) -> None:
        identity = host.directory_id(directory)
        if identity not in (None, but):
            self._cluster.losses.add(LostDirectories((identity,)))

    def _any_expendable(self) -> SimulatedHost | None:
        brokers = [host for host in self._cluster.hosts if host.is_broker]
        host = self._rng.choice(brokers)
        return host if self._cluster.losses.may_lose(host.number) else None

    # -- old data

    def _copy(self) -> None:
        """Copy a broker's disks, after a crash or an orderly shutdown."""
        host = self._any_broker_up()
        if host is None or host.on_end is not None:
            return
        self._cluster.note("copy", host.process)
        host.on_end = lambda: self._take_copy(host)
        if self._rng.random() < 0.5:
            self._end(host, "kill")
        else:
            host.stop()
            self._plan(self._rng.choice([500, 1500, 4500]), lambda: None if host.is_up else host.start())

    def _take_copy(self, host: SimulatedHost) -> None:
        if not self._cluster.losses.is_damaged(host):  # otherwise its damage would be restored later, unrecorded
            self._copies.take(host)

    def _put_copies_back(self) -> None:
        """Restore the copy, replacing all newer data."""
        hosts = [host for host in self._cluster.hosts if self._copies.of(host)]
        host = self._rng.choice(hosts) if hosts else None
        broker = self._cluster.image.brokers.get(BrokerId(host.number)) if host is not None else None
        if host is None or broker is None or not self._cluster.losses.may_lose(host.number):
            return
        if host.is_up:
            self._end(host, "kill")
        self._cluster.losses.add(LostMemory(broker.broker_id, broker.epoch))
        for copy in self._copies.of(host):
            if self._rng.random() < 0.7:
                self._note_lost(host, copy.path, but=copy.identity)
                is_marked = self._copies.put_back(host, copy, self._cluster.image)
                self._cluster.note("put_copy_back", host.host, copy.path, "marked" if is_marked else "")

    def _copy_store(self) -> None:
        """Copy the store of a controller, which is down meanwhile."""
        host = self._rng.choice([host for host in self._cluster.hosts if host.config.is_controller])
        if host.is_up:
            self._end(host, "kill")
        self._cluster.note("copy_store", host.host)
        self._store_copies[host] = host.disk.content

    def _put_store_back(self) -> None:
        """Restore an old store. After a while, an operator sees why that node does not participate, and replaces its
        disk by an empty one."""
        hosts = self._cluster.hosts
        found = [host for host, copy in self._store_copies.items() if may_put_store_back(hosts, host, copy)]
        if not found:
            return
        host = self._rng.choice(found)
        if host.is_up:
            self._end(host, "kill")
        host.put_store_back(self._store_copies[host])
        self._plan(self._rng.choice([2_000, 5_000, 20_000]), lambda: self._replace_old_store(host))

    def _replace_old_store(self, host: SimulatedHost) -> None:
        if host.has_old_store:
            if host.is_up:
                self._end(host, "kill")
            host.wipe_store()

    # -- missing files

    def _lose_files(self) -> None:
        """Lose some files of one replica, of any kind: mostly of a leader, or of a preferred leader that leads again
        after the restart. Sometimes lose the directory's own notes, too."""
        host = self._any_broker_up()
        found = self._replicas(host) if host is not None else {}
        if host is None or not found:
            return
        image, leading = self._cluster.image, []
        for topic_id, number in found:
            partition = image.partition(TopicId(topic_id), number)
            if partition is not None and host.number in (partition.leader, partition.preferred_leader):
                leading.append((topic_id, number))
        key = self._rng.choice(leading if leading and self._rng.random() < 0.7 else list(found))
        if not self._cluster.losses.may_damage(host.number, key):
            return
        directory = found[key].log.directory
        broker = self._cluster.image.brokers.get(BrokerId(host.number))
        may_lose_notes = broker is not None and self._cluster.losses.may_lose(host.number)
        self._end(host, "kill")
        names = [path.rpartition("/")[2] for path, _ in host.files.contents(f"{directory}/")]
        lost = self._some_of(names)
        if lost:
            self._cluster.losses.add(LostFiles(host, key))
            host.lose_files(directory, lost)
        if broker is not None and may_lose_notes and self._rng.random() < 0.4:
            self._lose_notes(host, parent_of(directory), broker)

    def _lose_notes(self, host: SimulatedHost, directory: str, broker: Broker) -> None:
        """Lose a data directory's notes about itself: without them, nothing in it counts."""
        wanted = self._rng.choice([[WATERMARKS_FILE], [WATERMARKS_FILE, USED_EPOCH_FILE], [USED_EPOCH_FILE]])
        lost = [name for name in wanted if host.files.exists(f"{directory}/{name}")]
        self._cluster.losses.add(LostMemory(broker.broker_id, broker.epoch))
        host.lose_files(directory, lost)

    def _some_of(self, names: list[str]) -> list[str]:
        """Return files of one kind, from the beginning, the middle or the end, or all files."""
        rng, segments = self._rng, [name for name in names if name.endswith(LOG_SUFFIX)]
        match rng.choice(["segment", "segment", "segment", "segments", "truth", _DERIVED, "all"]):
            case "segment" if segments:
                stem = rng.choice([segments[0], rng.choice(segments), segments[-1]]).removesuffix(LOG_SUFFIX)
                suffixes = (LOG_SUFFIX,) if rng.random() < 0.5 else ("",)
                return [name for name in names if name.startswith(f"{stem}.") and name.endswith(suffixes)]
            case "segments":
                return segments
            case "truth":
                lost = rng.choice([CHECKPOINT_FILE, EPOCHS_FILE])
                return [name for name in names if name == lost]
            case "derived":
                suffix = rng.choice([INDEX_SUFFIX, TIME_INDEX_SUFFIX, PRODUCERS_SUFFIX])
                return [name for name in names if name.endswith(suffix)]
            case _:
                return names

    # -- bit rot

    def _rot(self) -> None:
        """Flip one bit of the data that a replica has had on its disk for a while."""
        host = self._any_broker_up()
        replicas = list(self._replicas(host).items()) if host is not None else []
        if host is None or not replicas:
            return
        (topic_id, number), replica = self._rng.choice(replicas)
        key = (topic_id, number)
        if not self._cluster.losses.may_damage(host.number, key):
            return
        places = self._places(host, replica)
        kinds = [kind for kind in places if places[kind]]
        if kinds:
            kind = self._rng.choice(kinds)
            path, size_bytes = self._rng.choice(places[kind])
            byte, bit = self._rng.randrange(size_bytes), self._rng.randrange(8)
            host.files.flip_bit(path, byte, bit)
            self._cluster.note("rot", host.process, path, byte, bit)
            rotten = host.files.byte_at(path, byte)
            assert rotten is not None
            if kind != _DERIVED:
                self._cluster.losses.add(Rot(host, key, path, byte, bit, rotten))
            if self._rng.random() < 0.6:
                self._end(host, "kill")  # while it is damaged: many files are rewritten regularly

    def _replicas(self, host: SimulatedHost) -> Mapping[PartitionKey, Replica]:
        return {
            key: replica
            for topic_id, number, _ in self._cluster.image.hosted_by(BrokerId(host.number))
            if (replica := host.replica(key := (topic_id, number))) is not None
        }

    def _places(self, host: SimulatedHost, replica: Replica) -> dict[str, list[tuple[str, int]]]:
        """Return files by their purpose, each with the size that is known to be on the disk.

        Damage above a log's recovery point cannot be distinguished from a write torn by a crash, and is truncated in
        the same way. No record is lost while other replicas have it. But they may all be down when this one restarts,
        so that part is left intact.
        """
        places: dict[str, list[tuple[str, int]]] = {"batches": [], "truth": [], _DERIVED: []}
        for path, content in host.files.contents(f"{replica.log.directory}/"):
            name = path.rpartition("/")[2]
            numbered = parse_numbered(name)
            if numbered is not None and numbered[1] == LOG_SUFFIX:
                kind, size_bytes = "batches", _vouched_for_bytes(content, replica.log.recovery_point)
            else:
                kind, size_bytes = "truth" if name in (CHECKPOINT_FILE, EPOCHS_FILE) else _DERIVED, len(content)
            if size_bytes:
                places[kind].append((path, size_bytes))
        return places


def _vouched_for_bytes(content: bytes, recovery_point: int) -> int:
    """Return how many bytes of a segment lie below the recovery point."""
    size_bytes = 0
    try:
        for position, header in iterate_batches(content):
            if header.next_offset > recovery_point:
                break
            size_bytes = position + header.total_bytes
    except InvalidBatch:
        pass  # torn last write
    return size_bytes
