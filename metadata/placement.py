"""Where the replicas of new partitions go: brokers, the order of leading, directories. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence

from lograft.metadata.broker import Broker, BrokerState
from lograft.metadata.errors import ControllerError
from lograft.metadata.image import ClusterImage
from lograft.metadata.leader_spread import choose_leaders
from lograft.metadata.partition import BrokerId, Partition, Replica
from lograft.metadata.settings import is_cordoned
from lograft.metadata.spread import Spread
from lograft.proto import errors_pb2
from lograft.runtime.rng import Rng

# So that what follows when a broker is fenced fits in one Raft entry.
MAX_REPLICAS_PER_BROKER = 20_000


def place(
    image: ClusterImage,
    rng: Rng,
    partitions: int,
    replication_factor: int,
    existing: Sequence[Partition] = (),
) -> list[tuple[Replica, ...]]:
    """The replicas of each of so many new partitions of one topic, the preferred leader first. `existing`: the
    partitions that the topic has.

    Only active brokers are given replicas. Those of a partition are on distinct brokers and on as many racks as can be;
    replicas and leaders are spread evenly within the topic, and what that leaves open, in the cluster. The followers of
    a partition are in random order: so who leads instead of a broker that died differs from partition to partition.
    """
    brokers = _brokers_for(image, replication_factor)
    spread = Spread(image, brokers, rng, existing)
    chosen = [spread.choose(replication_factor) for _ in range(partitions)]
    check_replica_limit(image, (broker_id for replicas in chosen for broker_id in replicas))
    preferred = Counter(partition.preferred_leader for partition in existing)
    leaders = choose_leaders(
        chosen,
        {broker.broker_id: preferred[broker.broker_id] for broker in brokers},
        {broker.broker_id: image.leader_count(broker.broker_id) for broker in brokers},
        rng,
    )
    directories = DirectoryChoice(image)
    placed = []
    for replicas, leader in zip(chosen, leaders, strict=True):
        followers = [broker_id for broker_id in replicas if broker_id != leader]
        rng.shuffle(followers)
        placed.append(tuple(directories.replica_on(broker_id) for broker_id in (leader, *followers)))
    return placed


def usable_brokers(image: ClusterImage) -> list[Broker]:
    """Those that may be given new replicas, in the order of their ids."""
    usable = [broker for broker in _live_brokers(image) if not is_cordoned(image, broker.broker_id)]
    return sorted(usable, key=lambda broker: broker.broker_id)


def _live_brokers(image: ClusterImage) -> list[Broker]:
    return [broker for broker in image.brokers.values() if broker.state is BrokerState.ACTIVE and broker.directories]


def check_replica_limit(image: ClusterImage, added: Iterable[BrokerId]) -> None:
    """INVALID_REPLICAS if one more replica for each time that a broker is named would be too many for it."""
    for broker_id, count in Counter(added).items():
        total = image.replica_count(broker_id) + count
        if total > MAX_REPLICAS_PER_BROKER:
            raise ControllerError(
                errors_pb2.INVALID_REPLICAS,
                f"broker {broker_id} would have {total} replicas, and no broker may have more than "
                f"{MAX_REPLICAS_PER_BROKER}: ask for fewer partitions or replicas, or add brokers",
            )


class DirectoryChoice:
    """The directory for each new replica: of the broker's directories the one with the fewest replicas, those chosen
    here before included."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._choices: dict[BrokerId, tuple[list[Replica], list[int]]] = {}

    def replica_on(self, broker_id: BrokerId) -> Replica:
        """A replica on this broker, which has directories."""
        if broker_id not in self._choices:
            directories = self._image.brokers[broker_id].directories
            assert directories, f"broker {broker_id} has no directory"
            self._choices[broker_id] = (
                [Replica(broker_id, directory_id) for directory_id in directories],
                [self._image.replicas_in(broker_id, directory_id) for directory_id in directories],
            )
        replicas, counts = self._choices[broker_id]
        fewest = counts.index(min(counts))
        counts[fewest] += 1
        return replicas[fewest]


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
