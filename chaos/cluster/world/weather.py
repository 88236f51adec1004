"""The conditions of a simulated run of a complete cluster, drawn from its seed. Pure."""

from dataclasses import dataclass
from typing import TypeAlias

from lograft.broker.hosting.maintenance import MaintenanceTimes
from lograft.broker.replica.interfaces import Acks
from lograft.runtime.rng import Rng

WISHES = (
    "create", "create", "delete", "recreate", "set_min_isr", "set_min_isr", "reassign", "reassign", "reassign",
    "cancel", "elect_preferred", "transfer", "add_partition", "drain", "use_again", "spread", "balance",
)  # fmt: skip

Settings: TypeAlias = tuple[tuple[str, tuple[str | None, ...]], ...]
"""Keys of a topic's configuration, each with its possible values. None restores the default."""

SEGMENTS: Settings = (("segment.bytes", ("1024", "4096", None)),)
POLICIES: Settings = (
    ("cleanup.policy", ("delete", "compact", "compact,delete")),
    ("min.cleanable.dirty.ratio", ("0", "0.5")),
    ("delete.retention.ms", ("0", "1000", "5000")),
)
RETENTION: Settings = (("retention.bytes", (None, "2048", "16384")), ("retention.ms", (None, "4000")))
FLUSHING: Settings = (("flush.mode", ("os", "fsync")), ("flush.messages", (None, "5")), ("flush.ms", (None, "500")))

# Periodic tasks of brokers, frequent enough to occur in a run.
QUICK_UPKEEP = MaintenanceTimes(
    share_ms=500,
    flush_ms=300,
    roll_ms=2_000,
    watermarks_ms=1_000,
    checkpoint_ms=1_500,
    retention_ms=2_000,
    compaction_ms=2_000,
)


@dataclass(frozen=True, slots=True)
class ClusterWeather:
    """The conditions of one run. Times are in milliseconds."""

    controllers: int = 3  # the first nodes; pure controllers have separate numbers
    brokers: int = 3
    late_brokers: int = 0  # of the brokers, those that start while the cluster is at work
    racks: int = 0  # of brokers; 0: brokers name no rack
    is_combined: bool = True  # the first nodes have both roles
    directories: int = 1  # of each broker
    upkeep: MaintenanceTimes = QUICK_UPKEEP
    duration_ms: int = 15_000
    delay_ms: tuple[float, float] = (0.3, 3.0)
    fault_every_ms: int = 1_000
    faults: tuple[str, ...] = ()  # the nemesis draws from these; repeated names are drawn more often
    topics: int = 2  # at most, at a time
    partitions: int = 2  # at most, of a topic
    producers: int = 2
    acks: tuple[Acks, ...] = (Acks.ALL,)  # producers draw from these
    appenders: int = 0
    consumers: int = 1
    askers: int = 2
    members: int = 0  # of a group
    registrars: int = 0  # clients that write and read a setting
    ask_every_ms: tuple[float, float] = (5.0, 120.0)
    client_delay_ms: tuple[float, float] | None = None  # None: as between nodes
    send_every_ms: float = 60.0  # of each producer
    records_at_once: int = 3  # at most
    delivery_timeout_ms: int = 8_000
    operators: int = 1
    think_ms: tuple[float, float] = (200.0, 3_000.0)
    wishes: tuple[str, ...] = WISHES  # operators draw from these; repeated names are drawn more often
    settings: Settings = ()  # changed by operators
    lag_ms: int = 1_500
    flush_mode: str = "fsync"
    segment_bytes: int = 4_096
    policies: tuple[str, ...] = ("delete",)  # each topic gets one
    delete_retention_ms: int = 1_000
    record_keys: int = 6  # number of distinct keys
    deletion_probability: float = 0.1  # of a record
    retention_bytes: int | None = None  # of a partition
    min_isr: int | None = None  # initially, of every topic; None: it depends
    least_min_isr: int = 1  # the lowest value it may be set to
    unclean_probability: float = 0.0  # of topics that allow unclean elections


# Processes die or stall, and the network fails.
PROCESS_FAULTS = (
    "kill", "kill", "kill_leader", "kill_leader", "kill_all", "stop", "start", "start", "pause", "pause_leader", "cut",
    "cut", "isolate_leader", "isolate_leader", "cut_from_controllers", "slow_link", "slow_disk", "break_streams",
    "transfer", "heal", "heal", "heal", "change_clock", "strand", "forget_tails", "forget_tails",
)  # fmt: skip
# Machines die, or their disks are full. When they are back, they still have all their data.
MACHINE_FAULTS = (
    "power_failure", "power_failure", "blink", "blackout", "crash_in_call", "crash_in_call", "fill_disk", "fail_writes",
    "fill_directory", "take_away", "take_away",
)  # fmt: skip
# Data is lost.
LOSSES = ("wipe", "wipe", "fail_sync", "rot", "rot", "lose_files", "lose_files", "lose_files")
# Old data is restored.
COPIES = ("copy", "copy", "copy", "put_copy_back", "put_copy_back", "put_copy_back", "crash_in_start")


# Either voters come and go, or their disks do: one of three may be lost, and then no other voter may leave.
VOTER_WISHES = ("add_voter",) * 4 + ("remove_voter",) * 3 + ("transfer",)
STORE_LOSSES = ("wipe_store", "wipe_store", "copy_store", "copy_store", "put_store_back", "put_store_back")
STORE_WISHES = ("replace_voter",) * 4 + ("transfer",)


def client_names(weather: ClusterWeather) -> list[str]:
    """Return the names of all clients, in the order of their creation."""
    counts = {
        "operator": weather.operators,
        "producer": weather.producers,
        "appender": weather.appenders,
        "consumer": weather.consumers,
        "member": weather.members,
        "asker": weather.askers,
        "registrar": weather.registrars,
    }
    return [f"{kind}{number}" for kind, many in counts.items() for number in range(many)]


def draw_cluster_weather(rng: Rng) -> ClusterWeather:
    """Draw weather between a few restarts and all faults at once."""
    faults = tuple(fault for fault in PROCESS_FAULTS if rng.random() < 0.7)
    if rng.random() < 0.7:
        faults += tuple(fault for fault in MACHINE_FAULTS if rng.random() < 0.7)
    policies = rng.choice([("delete",), ("delete", "compact"), ("compact",), ("compact", "compact,delete")])
    flush_mode = "os" if rng.random() < 0.2 else "fsync"
    settings = _draw_settings(rng, policies, flush_mode)
    has_losses = rng.random() < 0.4
    if has_losses:
        faults += LOSSES
        faults += COPIES if rng.random() < 0.6 else ()
    is_unclean = rng.random() < 0.25
    faults += ("strand",) * 4 if is_unclean else ()
    controllers, brokers, is_combined = rng.choice(
        [(3, 3, True), (3, 3, True), (3, 4, True), (3, 4, True), (1, 3, False)]
    )
    quorum_wishes: tuple[str, ...] = ()
    if controllers > 1 and rng.random() < 0.3:
        loses_stores = rng.random() < 0.5
        quorum_wishes = STORE_WISHES if loses_stores else VOTER_WISHES
        faults += STORE_LOSSES if loses_stores else ()
    duration_ms, fault_every_ms = _draw_pace(rng)
    return ClusterWeather(
        controllers=controllers,
        brokers=brokers,
        is_combined=is_combined,
        late_brokers=rng.choice([0, 1]) if brokers > 3 else 0,
        racks=rng.choice([0, 2, 3]),
        directories=rng.choice([1, 2]),
        upkeep=rng.choice([QUICK_UPKEEP, QUICK_UPKEEP, MaintenanceTimes()]),
        duration_ms=duration_ms,
        delay_ms=(0.3, rng.choice([1.0, 5.0, 30.0, 120.0])),
        fault_every_ms=fault_every_ms,
        faults=faults or ("kill", "start"),
        topics=rng.randint(1, 2),
        partitions=rng.randint(1, 2),
        producers=rng.randint(1, 3),
        acks=rng.choice([(Acks.ALL,), (Acks.ALL,), (Acks.ALL, Acks.LEADER), (Acks.ALL, Acks.LEADER, Acks.NONE)]),
        appenders=rng.choice([0, 0, 1]),
        consumers=rng.randint(1, 2),
        members=rng.choice([0, 0, 2, 3]),
        registrars=2,
        send_every_ms=rng.choice([30.0, 100.0, 200.0]),
        records_at_once=rng.choice([1, 3, 6]),
        delivery_timeout_ms=rng.choice([1_500, 4_000, 15_000]),
        operators=rng.randint(0, 2),
        think_ms=(100.0, rng.choice([1_000.0, 4_000.0])),
        wishes=(
            *WISHES,
            *quorum_wishes,
            *(("configure",) * (3 if settings else 0)),
            *(("elect_unclean",) * (3 if is_unclean and rng.random() < 0.6 else 0)),
        ),
        settings=settings,
        lag_ms=rng.choice([300, 1_500, 10_000]),
        flush_mode=flush_mode,
        segment_bytes=rng.choice([1_024, 4_096, 1 << 30 if policies == ("delete",) else 2_048]),
        policies=policies,
        delete_retention_ms=rng.choice([0, 500, 3_000]),
        record_keys=rng.choice([2, 6, 20]),
        deletion_probability=rng.choice([0.0, 0.1, 0.3]),
        retention_bytes=rng.choice([2_048, 16_384]) if rng.random() < 0.2 else None,
        min_isr=1 if is_unclean and not has_losses and rng.random() < 0.7 else None,
        least_min_isr=2 if has_losses or flush_mode == "os" else 1,  # a trusted page cache may be lost
        unclean_probability=0.7 if is_unclean else 0.0,
    )


def _draw_settings(rng: Rng, policies: tuple[str, ...], flush_mode: str) -> Settings:
    """Draw the settings that operators change. All others keep their values for the whole run: partitions that are
    never compacted or never limited are complete at the end, and are checked more strictly."""
    if rng.random() < 0.4:
        return ()
    settings = SEGMENTS
    settings += POLICIES if policies != ("delete",) else ()
    settings += RETENTION if rng.random() < 0.3 else ()
    return settings + (FLUSHING if flush_mode == "os" else ())


def _draw_pace(rng: Rng) -> tuple[int, int]:
    """Draw a duration and an interval between faults: a storm, or faults with time to recover in between."""
    if rng.random() < 0.5:
        return rng.randint(6_000, 12_000), rng.choice([300, 600, 1_200])
    return rng.randint(12_000, 30_000), rng.choice([1_200, 2_500])
