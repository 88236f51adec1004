"""The conditions of a simulated run of a metadata cluster, drawn from its seed."""

from dataclasses import dataclass

from lograft.runtime.rng import Rng

WISHES = (
    *["create"] * 5, "delete", "add_partitions", *["set_min_isr"] * 2, "set_retention", "set_cluster_min_isr",
    *["reassign"] * 5, "cancel", "elect_preferred", "elect_unclean", "unregister", *["read"] * 2,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class MetadataWeather:
    """The conditions of one run. Times are in milliseconds."""

    controllers: int = 3
    brokers: int = 4
    racks: int = 0  # 0: brokers name no rack
    directories: int = 1  # at most, per broker
    duration_ms: int = 20_000
    delay_ms: tuple[float, float] = (0.3, 5.0)
    fault_every_ms: int = 600
    faults: tuple[str, ...] = ()  # the nemesis draws from these; repeated names are drawn more often
    snapshot_every: int = 40  # entries
    max_deltas: int = 1000  # kept by a controller for nodes that follow the metadata
    clients: int = 3
    think_ms: tuple[float, float] = (20.0, 600.0)
    topics: int = 5  # at most, at a time
    wishes: tuple[str, ...] = WISHES  # operators draw from these; repeated names are drawn more often
    replication_factors: tuple[int, ...] = (0, 1, 2, 3, 3)  # 0: the cluster's default
    append_probability: float = 0.1  # per partition and tick
    tick_ms: int = 40
    lag_ms: int = 1500
    os_flush_probability: float = 0.3  # of topics that trust the page cache
    unclean_probability: float = 0.05  # of topics that allow unclean elections


BROKER_FAULTS = (
    "kill", "kill", "kill", "kill_leader", "power_failure", "blink", "wipe", "stop", "start", "start", "start",
    "pause", "pause", "cut_from_controllers", "cut_from_controllers", "cut_from_brokers", "slow_broker",
    "break_streams", "fail_directory", "rot",
)  # fmt: skip
CONTROLLER_FAULTS = (
    "kill_controller", "kill_active", "kill_active", "start_controller", "start_controller", "pause_controller",
    "isolate_active", "cut_controllers", "transfer", "slow_disk", "change_clock",
)  # fmt: skip
NETWORK_FAULTS = ("heal", "heal", "heal")


def draw_metadata_weather(rng: Rng) -> MetadataWeather:
    """Draw weather between a few restarts and all faults at once."""
    brokers = rng.choice([3, 4, 5, 6])
    faults = tuple(fault for fault in BROKER_FAULTS if rng.random() < 0.7)
    if rng.random() < 0.7:
        faults += tuple(fault for fault in CONTROLLER_FAULTS if rng.random() < 0.6)
    return MetadataWeather(
        controllers=rng.choice([1, 3, 3, 3, 5]),
        brokers=brokers,
        racks=rng.choice([0, 0, 2, 3]),
        directories=rng.choice([1, 1, 2]),
        duration_ms=rng.randint(8_000, 16_000),
        delay_ms=(0.3, rng.choice([2.0, 10.0, 40.0])),
        fault_every_ms=rng.choice([150, 300, 600, 1200]),
        faults=faults + NETWORK_FAULTS,
        snapshot_every=rng.choice([10, 40, 1_000_000]),
        max_deltas=rng.choice([3, 20, 1000]),
        clients=rng.randint(1, 3),
        think_ms=(5.0, rng.choice([100.0, 400.0, 1000.0])),
        topics=rng.randint(2, 6),
        append_probability=rng.choice([0.03, 0.1, 0.3]),
        os_flush_probability=rng.choice([0.0, 0.3, 1.0]),
        unclean_probability=rng.choice([0.0, 0.1]),
    )
