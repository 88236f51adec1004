"""What goes wrong with the disks of a simulated cluster: they are slow, full or failing, are lost, or rot."""

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

_DERIVED = "derived"  # what is made anew when it is wrong: nothing is lost with it


class DiskTarget(Protocol):
    weather: ClusterWeather
    hosts: list[SimulatedHost]
    losses: Losses

    @property
    def image(self) -> ClusterImage: ...

    def note(self, event: str, *details: Detail) -> None: ...


class DiskFaults:
    """`end` ends a host's process, in some way, and plans its next."""

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
        """Where the page cache is trusted, that is a loss, and noted as one."""
        if self._cluster.weather.flush_mode != "os" or not host.is_broker:
            return True
        broker = self._cluster.image.brokers.get(BrokerId(host.number))
        if broker is None or not self._cluster.losses.may_lose(host.number):
            return False
        self._cluster.losses.add(LostMemory(BrokerId(host.number), broker.epoch))
        return True

    def _may_be_away(self, host: SimulatedHost, directories: Sequence[str]) -> bool:
        """Where the page cache is trusted, a directory that comes back is not: nobody knows what it has been through.
        That is a loss, and noted as one."""
        if self._cluster.weather.flush_mode != "os":
            return True
        if not self._cluster.losses.may_lose(host.number):
            return False
        for directory in directories:
            self._note_lost(host, directory)
        return True

    # -- what passes

    def _slow_disk(self) -> None:
        self._rng.choice(self._cluster.hosts).speed.slowdown = self._rng.choice([1.0, 10.0, 100.0])

    def _forget_tails(self) -> None:
        """All that a broker has is to be read from its disk."""
        if (host := self._any_broker_up()) is not None:
            self._cluster.note("forget_tails", host.process)
            host.forget_tails()

    def _fill_disk(self) -> None:
        """For a while. Room there is for a few writes more, or one in part; or none, and then some for so much that
        users may not use it up."""
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
        """In one directory, until the next start."""
        host = self._any_broker_up()
        directory = self._rng.choice(host.config.data_dirs) if host is not None else ""
        if host is not None and not host.is_full and self._may_be_away(host, [directory]):
            self._cluster.note("fail_writes", host.process, directory)
            host.fail_writes(directory)

    def _fill_directory(self) -> None:
        """For a while; the others have room."""
        host = self._any_broker_up()
        if host is not None and not host.is_full and not host.has_disk_trouble:
            directory = self._rng.choice(host.config.data_dirs)
            self._cluster.note("fill_directory", host.process, directory)
            host.fill_directory(directory)
            self._plan(self._rng.choice([300, 1500, 5000]), lambda: self._make_room(host))

    def _take_away(self) -> None:
        """A broker is started without one of its directories, and later with it: what is there has had no part in what
        happened meanwhile. The first has a controller's metadata, in the world."""
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

    # -- what is lost

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
        """A controller loses what it knows of the metadata, and all it ever voted for."""
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

    # -- what comes from the past

    def _copy(self) -> None:
        """Somebody copies a broker's disks: after a crash, or when it has stopped in good order."""
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
        if not self._cluster.losses.is_damaged(host):  # or what is damaged would be again, and unknown to be
            self._copies.take(host)

    def _put_copies_back(self) -> None:
        """And puts the copy back, in the place of what has come since."""
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
        """Of a controller that is down for that."""
        host = self._rng.choice([host for host in self._cluster.hosts if host.config.is_controller])
        if host.is_up:
            self._end(host, "kill")
        self._cluster.note("copy_store", host.host)
        self._store_copies[host] = host.disk.content

    def _put_store_back(self) -> None:
        """After a while somebody sees why that node takes no part, and replaces its disk by an empty one."""
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

    # -- what is missing

    def _lose_files(self) -> None:
        """Some of one replica's, of any kind; mostly of one that leads, or is to lead again when it is back. Sometimes
        the directory's own notes go with them."""
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
        """What a data directory says of itself: then nothing in it counts."""
        wanted = self._rng.choice([[WATERMARKS_FILE], [WATERMARKS_FILE, USED_EPOCH_FILE], [USED_EPOCH_FILE]])
        lost = [name for name in wanted if host.files.exists(f"{directory}/{name}")]
        self._cluster.losses.add(LostMemory(broker.broker_id, broker.epoch))
        host.lose_files(directory, lost)

    def _some_of(self, names: list[str]) -> list[str]:
        """Of one kind, at the beginning, in the middle or at the end; or all there are."""
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

    # -- what rots

    def _rot(self) -> None:
        """One bit, of what a replica has had on its disk for a while."""
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
                self._end(host, "kill")  # while it is so: much of it is written anew every now and then

    def _replicas(self, host: SimulatedHost) -> Mapping[PartitionKey, Replica]:
        return {
            key: replica
            for topic_id, number, _ in self._cluster.image.hosted_by(BrokerId(host.number))
            if (replica := host.replica(key := (topic_id, number))) is not None
        }

    def _places(self, host: SimulatedHost, replica: Replica) -> dict[str, list[tuple[str, int]]]:
        """Files, and how much of each is known to be on the disk, by what they are for.

        What is above a log's recovery point cannot be told from a write that a crash has torn, and is cut like one.
        That is no loss while others have it; but they may all be away when this one comes back: it is left alone.
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
    """How much of a segment lies below the recovery point."""
    size_bytes = 0
    try:
        for position, header in iterate_batches(content):
            if header.next_offset > recovery_point:
                break
            size_bytes = position + header.total_bytes
    except InvalidBatch:
        pass  # the last write was torn
    return size_bytes
