"""Placement of new replicas: brokers, the order of preference for leading, directories. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence

from lograft.metadata.config.effective_settings import is_cordoned
from lograft.metadata.decisions.topics.disk_room import ROOM_EVERYWHERE, DiskRoom
from lograft.metadata.decisions.topics.leader_spread import choose_leaders
from lograft.metadata.decisions.topics.replica_spread import Spread
from lograft.metadata.image.broker import Broker, BrokerState
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerId, Partition, Replica
from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ControllerError
from lograft.runtime.rng import Rng

# So that what follows when a broker is fenced fits in one Raft entry.
MAX_REPLICAS_PER_BROKER = 20_000


def place(
    image: ClusterImage,
    rng: Rng,
    partitions: int,
    replication_factor: int,
    existing: Sequence[Partition] = (),
    room: DiskRoom = ROOM_EVERYWHERE,
) -> list[tuple[Replica, ...]]:
    """Return the replicas of `count` new partitions of one topic, the preferred leader first. `existing`: the
    partitions that the topic has.

    Only active brokers get replicas. Those of a partition are on distinct brokers and on as many racks as possible;
    replicas and leaders are spread evenly within the topic, and, among equal choices, over the cluster. The followers
    of a partition are in random order, so that the successors of a dead leader differ from partition to partition.

    Brokers with full disks come last: they get replicas only if the others are too few, and lead only if there are no
    others.
    """
    brokers = _brokers_for(image, replication_factor)
    with_room = [broker for broker in brokers if room.has_place_on(broker)]
    able = with_room or brokers
    chosen = _choose(image, rng, partitions, replication_factor, existing, able, brokers)
    check_replica_limit(image, (broker_id for replicas in chosen for broker_id in replicas))
    preferred = Counter(partition.preferred_leader for partition in existing)
    led_in_topic = {broker.broker_id: preferred[broker.broker_id] for broker in able}
    leaders = choose_leaders(
        [[broker_id for broker_id in replicas if broker_id in led_in_topic] for replicas in chosen],
        led_in_topic,
        {broker.broker_id: image.leader_count(broker.broker_id) for broker in able},
        rng,
    )
    directories = DirectoryChoice(image, room)
    placed = []
    for replicas, leader in zip(chosen, leaders, strict=True):
        followers = [broker_id for broker_id in replicas if broker_id != leader]
        rng.shuffle(followers)
        placed.append(tuple(directories.replica_on(broker_id) for broker_id in (leader, *followers)))
    return placed


def _choose(
    image: ClusterImage,
    rng: Rng,
    partitions: int,
    replication_factor: int,
    existing: Sequence[Partition],
    able: Sequence[Broker],
    brokers: Sequence[Broker],
) -> list[list[BrokerId]]:
    """Choose the brokers of each new partition: of `able` alone if they are enough; else all of them, and further ones
    of `brokers`."""
    if len(able) >= replication_factor:
        spread = Spread(image, able, rng, existing)
        return [spread.choose(replication_factor) for _ in range(partitions)]
    kept = [broker.broker_id for broker in able]
    spread = Spread(image, [broker for broker in brokers if broker.broker_id not in kept], rng, existing)
    return [[*kept, *spread.choose(replication_factor - len(kept), kept)] for _ in range(partitions)]


def usable_brokers(image: ClusterImage) -> list[Broker]:
    """Return the brokers that may get new replicas, in the order of their ids."""
    usable = [broker for broker in _live_brokers(image) if not is_cordoned(image, broker.broker_id)]
    return sorted(usable, key=lambda broker: broker.broker_id)


def _live_brokers(image: ClusterImage) -> list[Broker]:
    return [broker for broker in image.brokers.values() if broker.state is BrokerState.ACTIVE and broker.directories]


def check_replica_limit(image: ClusterImage, added: Iterable[BrokerId]) -> None:
    """Raise INVALID_REPLICAS if one more replica for each time that a broker is named would exceed its limit."""
    for broker_id, count in Counter(added).items():
        total = image.replica_count(broker_id) + count
        if total > MAX_REPLICAS_PER_BROKER:
            raise ControllerError(
                errors_pb2.INVALID_REPLICAS,
                f"broker {broker_id} would have {total} replicas, and no broker may have more than "
                f"{MAX_REPLICAS_PER_BROKER}: ask for fewer partitions or replicas, or add brokers",
            )


class DirectoryChoice:
    """Chooses the directory of each new replica: of the broker's directories with room, or of all if none has, the one
    with the fewest replicas, those chosen here before included."""

    def __init__(self, image: ClusterImage, room: DiskRoom = ROOM_EVERYWHERE) -> None:
        self._image = image
        self._room = room
        self._choices: dict[BrokerId, tuple[list[Replica], list[int]]] = {}

    def replica_on(self, broker_id: BrokerId) -> Replica:
        """Return a replica on this broker, which has directories."""
        if broker_id not in self._choices:
            places = [Replica(broker_id, each) for each in self._image.brokers[broker_id].directories]
            assert places, f"broker {broker_id} has no directory"
            places = [one for one in places if self._room.takes_records(one, is_internal=False)] or places
            counts = [self._image.replicas_in(broker_id, place.directory_id) for place in places]
            self._choices[broker_id] = (places, counts)
        places, counts = self._choices[broker_id]
        fewest = counts.index(min(counts))
        counts[fewest] += 1
        return places[fewest]


def _brokers_for(image: ClusterImage, replication_factor: int) -> list[Broker]:
    active, live = usable_brokers(image), len(_live_brokers(image))
    if replication_factor > len(active):
        cordoned = f" that take replicas (`placement.enable` is off on {live - len(active)})"
        raise ControllerError(
            errors_pb2.NOT_ENOUGH_BROKERS,
            f"{replication_factor} replicas need as many live brokers, and there are {len(active)} of "
            f"{len(image.brokers)} registered{cordoned if live > len(active) else ''}: start more brokers, or ask for "
            "fewer replicas",
        )
    with_room = [broker for broker in active if image.replica_count(broker.broker_id) < MAX_REPLICAS_PER_BROKER]
    if replication_factor > len(with_room):
        raise ControllerError(
            errors_pb2.INVALID_REPLICAS,
            f"{replication_factor} replicas need as many brokers with room, and of {len(active)} live brokers all but "
            f"{len(with_room)} have {MAX_REPLICAS_PER_BROKER} replicas, the most a broker may have: add brokers",
        )
    return with_room
