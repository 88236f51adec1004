"""What a simulated run of a whole cluster is like: it follows from its seed."""

from dataclasses import dataclass

from lograft.runtime.rng import Rng

WISHES = (
    "create", "create", "delete", "set_min_isr", "set_min_isr", "reassign", "reassign", "reassign", "cancel",
    "elect_preferred", "transfer", "add_partition",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ClusterWeather:
    """The conditions of one run. Times in milliseconds."""

    controllers: int = 3  # the first nodes; those that are no more than that have numbers of their own
    brokers: int = 3
    is_combined: bool = True  # the first nodes are both
    directories: int = 1  # of each broker
    duration_ms: int = 15_000
    delay_ms: tuple[float, float] = (0.3, 3.0)
    fault_every_ms: int = 1_000
    faults: tuple[str, ...] = ()  # which the nemesis chooses from; named more than once: more often
    topics: int = 2  # at most, at a time
    partitions: int = 2  # at most, of a topic
    producers: int = 2
    consumers: int = 1
    askers: int = 2
    ask_every_ms: tuple[float, float] = (5.0, 120.0)
    client_delay_ms: tuple[float, float] | None = None  # as between nodes
    send_every_ms: float = 60.0  # a producer
    records_at_once: int = 3  # at most
    delivery_timeout_ms: int = 8_000
    operators: int = 1
    think_ms: tuple[float, float] = (200.0, 3_000.0)
    wishes: tuple[str, ...] = WISHES  # what operators ask for; named more than once: more often
    lag_ms: int = 1_500
    flush_mode: str = "fsync"
    segment_bytes: int = 4_096
    min_isr: int | None = None  # of every topic to begin with; none: it depends
    unclean_probability: float = 0.0  # that a topic allows unclean elections


# What may happen to page caches that are trusted: processes die, machines do not.
PROCESS_FAULTS = (
    "kill", "kill", "kill_leader", "kill_leader", "kill_all", "stop", "start", "start", "pause", "pause_leader", "cut",
    "cut", "isolate_leader", "isolate_leader", "cut_from_controllers", "slow_link", "slow_disk", "break_streams",
    "transfer", "heal", "heal", "heal", "change_clock",
)  # fmt: skip
MACHINE_FAULTS = ("power_failure", "power_failure", "blink", "blackout", "crash_in_call", "crash_in_call")
LOSSES = ("wipe", "wipe", "fail_sync")


def draw_cluster_weather(rng: Rng) -> ClusterWeather:
    """From a few restarts to all at once."""
    faults = tuple(fault for fault in PROCESS_FAULTS if rng.random() < 0.7)
    flush_mode = "os" if rng.random() < 0.15 else "fsync"
    if flush_mode == "fsync" and rng.random() < 0.7:
        faults += tuple(fault for fault in MACHINE_FAULTS if rng.random() < 0.7)
    if rng.random() < 0.4:
        faults += LOSSES
    controllers, brokers, is_combined = rng.choice([(3, 3, True), (3, 3, True), (3, 4, True), (1, 3, False)])
    return ClusterWeather(
        controllers=controllers,
        brokers=brokers,
        is_combined=is_combined,
        directories=rng.choice([1, 1, 2]),
        duration_ms=rng.randint(6_000, 12_000),
        delay_ms=(0.3, rng.choice([1.0, 5.0, 30.0, 120.0])),
        fault_every_ms=rng.choice([300, 600, 1_200]),
        faults=faults or ("kill", "start"),
        topics=rng.randint(1, 2),
        partitions=rng.randint(1, 2),
        producers=rng.randint(1, 3),
        consumers=rng.randint(1, 2),
        send_every_ms=rng.choice([30.0, 100.0, 200.0]),
        records_at_once=rng.choice([1, 3, 6]),
        delivery_timeout_ms=rng.choice([1_500, 4_000, 15_000]),
        operators=rng.randint(0, 2),
        think_ms=(100.0, rng.choice([1_000.0, 4_000.0])),
        lag_ms=rng.choice([300, 1_500, 10_000]),
        flush_mode=flush_mode,
        segment_bytes=rng.choice([1_024, 4_096, 1 << 30]),
    )
