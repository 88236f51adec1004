"""Registration of a broker's process, and removal of a registration. Pure.

A new incarnation leads only in epochs that begin after its registration, and is in sync only once a leader finds it so
again: in one operation it gets a new broker epoch, leaves every ISR, and what it led gets another leader or none.

Requests may be delayed, so one of a dead process may arrive after its successor's. Each names the epoch that it
replaces, which its process asked for when it started: a registration made since then is newer, and stays.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from uuid import UUID

from lograft.metadata.config.effective_settings import trusts_page_cache
from lograft.metadata.decisions.checks import check_registered
from lograft.metadata.decisions.decision import Decision
from lograft.metadata.decisions.partitions.leave_isr import Hosted, leave_isrs
from lograft.metadata.image.broker import Broker, BrokerState
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerEpoch, BrokerId
from lograft.metadata.image.records import BrokerRegistered, BrokerUnregistered, PartitionChanged
from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ControllerError

MAX_BROKER_ID = 2**31 - 1
MAX_RACK_CHARACTERS = 255
MAX_BOOT_ID_CHARACTERS = 64
MAX_DIRECTORIES = 64
MAX_DAMAGE_CHARACTERS = 255
MAX_VERSION_CHARACTERS = 64
_ADDRESS = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]{1,253}):([0-9]{1,5})")


@dataclass(frozen=True, slots=True)
class DirectoryUse:
    """A data directory's notes on its past: the broker epoch that last used it (None: not noted), whether an operator
    has marked it as restored from a copy, and which of its own files are lost, if any: then it cannot say which logs it
    had."""

    directory_id: UUID
    used_epoch: BrokerEpoch | None = None
    is_restored: bool = False
    damage: str | None = None


@dataclass(frozen=True, slots=True)
class Registration:
    """A broker's description of itself. `boot_id` is the kernel's: it changes when the page cache is lost.
    `clean_epoch` is the broker epoch in the marker of a clean shutdown, if there is one. Feature levels: the lowest and
    the highest that this program supports. `uses`: one for each directory; empty from a version that keeps no such
    notes. `nodes_address`: where other brokers reach it; None: nowhere. `version`: of lograft; None from a version that
    does not report it."""

    broker_id: BrokerId
    incarnation: UUID
    address: str
    rack: str | None
    directories: tuple[UUID, ...]
    boot_id: str
    clean_epoch: BrokerEpoch | None
    min_feature_level: int
    max_feature_level: int
    nodes_address: str | None = None
    uses: tuple[DirectoryUse, ...] = ()
    version: str | None = None


def latest_epoch(image: ClusterImage, broker_id: BrokerId) -> BrokerEpoch | None:
    """Return the epoch of the broker's latest registration; None if it is not registered."""
    broker = image.brokers.get(broker_id)
    return broker.epoch if broker is not None else None


def register(
    image: ClusterImage, request: Registration, *, previous_epoch: BrokerEpoch | None, is_old_alive: bool
) -> Decision[BrokerEpoch]:
    """Register the process and return its broker epoch. `previous_epoch`: the latest that the process knew.
    `is_old_alive`: whether the presently registered process is being heard.

    A repeated request of the same process gets the same answer, whichever epoch it names: it does not know its own
    epoch if the first answer was lost.
    """
    _check(image, request)
    old = image.brokers.get(request.broker_id)
    if old is not None and _is_repeated(old, request):
        return Decision((), old.epoch)
    _check_latest(image, request.broker_id, previous_epoch)
    if old is not None and is_old_alive:
        _check_successor(old, request)
    epoch = BrokerEpoch(image.last_broker_epoch + 1)
    broker = Broker(
        request.broker_id, epoch, request.incarnation, request.address, request.rack, request.directories,
        request.boot_id, BrokerState.FENCED, request.nodes_address, bool(request.uses), request.version,
    )  # fmt: skip
    distrusted = () if old is None else _distrusted(old, request)
    stale = stale_directories(image, request)
    return Decision((BrokerRegistered(broker), *_departures(image, broker, distrusted, stale)), epoch)


def stale_directories(image: ClusterImage, request: Registration) -> tuple[UUID, ...]:
    """Return the directories whose replicas may lack records that they once had: a directory restored from a copy,
    which was last used before the epoch in which it last counted, or one that has lost its own notes.

    A process writes its epoch into each directory before the directory can count for anything, and the metadata confirm
    the epoch only then. So a process killed in between is not mistaken for a copy.
    """
    return tuple(use.directory_id for use in request.uses if why_stale(image, use) is not None)


def why_stale(image: ClusterImage, use: DirectoryUse) -> str | None:
    """Return the reason, for people; None if the directory is not stale."""
    if use.damage is not None:
        return use.damage
    if use.is_restored:
        return "marked as put back from a copy"
    confirmed = image.confirmed.get(use.directory_id)
    if confirmed is None:
        return None
    if use.used_epoch is None:
        return "used-epoch is missing"
    if use.used_epoch < confirmed:
        return f"put back from an older copy: last used in broker epoch {use.used_epoch}, it counted in {confirmed}"
    return None


def _is_repeated(old: Broker, request: Registration) -> bool:
    return (old.incarnation, old.address, old.rack, old.directories, old.boot_id, old.nodes_address) == (
        request.incarnation, request.address, request.rack, request.directories, request.boot_id,
        request.nodes_address,
    )  # fmt: skip


def _check_latest(image: ClusterImage, broker_id: BrokerId, previous_epoch: BrokerEpoch | None) -> None:
    latest = latest_epoch(image, broker_id)
    if previous_epoch != latest:
        raise ControllerError(
            errors_pb2.STALE_BROKER_EPOCH,
            f"broker {broker_id} asks to be registered after {_in_words(previous_epoch)}, but the latest is "
            f"{_in_words(latest)}: a process that lives asks for the latest epoch again",
        )


def _in_words(epoch: BrokerEpoch | None) -> str:
    return f"epoch {epoch}" if epoch is not None else "none"


def _check_successor(old: Broker, request: Registration) -> None:
    """Raise DUPLICATE_BROKER unless the processes share a directory, which its user locks: the new one has outlived the
    old one."""
    if old.incarnation != request.incarnation and not any(one in old.directories for one in request.directories):
        raise ControllerError(
            errors_pb2.DUPLICATE_BROKER,
            f"broker {old.broker_id} is running at {old.address} with other data directories; "
            "stop that one, or give this one a node_id of its own",
        )


def _distrusted(old: Broker, request: Registration) -> Collection[UUID]:
    """Return the directories that may have lost writes that were not on disk yet. The page cache survives a killed
    process, but not a reboot; and nothing is known of a directory that was away."""
    if request.clean_epoch != old.epoch and request.boot_id != old.boot_id:
        return (*old.directories, *request.directories)
    return [directory for directory in request.directories if directory not in old.directories]


def _departures(
    image: ClusterImage, broker: Broker, distrusted: Collection[UUID], stale: Collection[UUID]
) -> Iterator[PartitionChanged]:
    brokers = {**image.brokers, broker.broker_id: broker}
    kept: list[Hosted] = []
    lost: list[Hosted] = []
    for hosted in image.hosted_by(broker.broker_id):
        topic_id, _, partition = hosted
        directory = partition.directory_of(broker.broker_id)
        is_lost = directory in stale or (directory in distrusted and trusts_page_cache(image, topic_id))
        (lost if is_lost else kept).append(hosted)
    yield from leave_isrs(image, broker.broker_id, kept, brokers)
    yield from leave_isrs(image, broker.broker_id, lost, brokers, is_data_lost=True)


def _check(image: ClusterImage, request: Registration) -> None:
    if not 0 <= request.broker_id <= MAX_BROKER_ID:
        raise _invalid(f"broker id {request.broker_id} is not between 0 and {MAX_BROKER_ID}")
    for address in (request.address, request.nodes_address):
        if address is not None and not _is_address(address):
            raise _invalid(f"the advertised address {address!r} is not of the form host:port")
    if request.rack is not None and not 0 < len(request.rack) <= MAX_RACK_CHARACTERS:
        raise _invalid(f"a rack has 1 to {MAX_RACK_CHARACTERS} characters, or is left out")
    if request.version is not None and not 0 < len(request.version) <= MAX_VERSION_CHARACTERS:
        raise _invalid(f"a version has 1 to {MAX_VERSION_CHARACTERS} characters, or is left out")
    if len(request.boot_id) > MAX_BOOT_ID_CHARACTERS:
        raise _invalid(f"a boot id has at most {MAX_BOOT_ID_CHARACTERS} characters, not {len(request.boot_id)}")
    if not 0 < len(request.directories) <= MAX_DIRECTORIES:
        raise _invalid(f"a broker has 1 to {MAX_DIRECTORIES} data directories, not {len(request.directories)}")
    if len(dict.fromkeys(request.directories)) != len(request.directories):
        raise _invalid("two data directories have the same id: one is a copy of the other; empty one of them")
    if image.feature_level == 0:
        raise ControllerError(errors_pb2.UNAVAILABLE, "the controller is still setting the cluster up: try again")
    if not request.min_feature_level <= image.feature_level <= request.max_feature_level:
        raise ControllerError(
            errors_pb2.UNSUPPORTED_FEATURE_LEVEL,
            f"the cluster is at feature level {image.feature_level}; this program knows levels "
            f"{request.min_feature_level} to {request.max_feature_level}: run one that fits",
        )
    _check_directories_are_its_own(image, request)
    _check_uses(image, request)


def _check_uses(image: ClusterImage, request: Registration) -> None:
    if request.uses and tuple(use.directory_id for use in request.uses) != request.directories:
        raise _invalid("the uses of data directories must be one for each directory, in the same order")
    for use in request.uses:
        if use.damage is not None and len(use.damage) > MAX_DAMAGE_CHARACTERS:
            raise _invalid(f"the damage of a data directory has at most {MAX_DAMAGE_CHARACTERS} characters")
        if use.used_epoch is not None and use.used_epoch > image.last_broker_epoch:
            raise _invalid(
                f"data directory {use.directory_id} was used in broker epoch {use.used_epoch}, but the cluster's "
                f"metadata know of none after {image.last_broker_epoch}: the metadata are from the past, as if the "
                "controllers' data had been put back from an older copy; put back the newer one, or, if there is "
                "none, run `lograft mark-restored` on every data directory and elect leaders uncleanly"
            )


def _is_address(text: str) -> bool:
    match = _ADDRESS.fullmatch(text)
    return match is not None and 0 < int(match[2]) < 65536


def _check_directories_are_its_own(image: ClusterImage, request: Registration) -> None:
    for other in image.brokers.values():
        if other.broker_id != request.broker_id:
            for directory in request.directories:
                if directory in other.directories:
                    raise _invalid(
                        f"data directory {directory} belongs to broker {other.broker_id}; "
                        "a directory cannot change hands: use an empty one"
                    )


def _invalid(message: str) -> ControllerError:
    return ControllerError(errors_pb2.INVALID_REQUEST, message)


def unregister_broker(image: ClusterImage, broker_id: BrokerId) -> Decision[None]:
    """Remove the registration. Raise BROKER_IN_USE while the broker lives, or has replicas, which may be the last
    copies."""
    broker = check_registered(image, broker_id)
    if broker.is_live:
        raise ControllerError(
            errors_pb2.BROKER_IN_USE, f"broker {broker_id} is running: stop it first, or it would register again"
        )
    replicas = image.replica_count(broker_id)
    if replicas:
        raise ControllerError(
            errors_pb2.BROKER_IN_USE,
            f"broker {broker_id} has {replicas} {'replica' if replicas == 1 else 'replicas'}: reassign them to other "
            "brokers first",
        )
    return Decision((BrokerUnregistered(broker_id),), None)
