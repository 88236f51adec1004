"""The conditions of a simulated Raft run, drawn from its seed."""

from dataclasses import dataclass, replace

from lograft.runtime.rng import Rng


@dataclass(frozen=True, slots=True)
class Weather:
    """The conditions of one run: times in milliseconds, probabilities per message or action of the nemesis."""

    voters: int = 3
    spares: int = 1  # nodes that start empty, for membership changes
    duration_ms: int = 10_000
    delay_ms: tuple[float, float] = (0.3, 5.0)
    long_delay_ms: float = 200.0
    long_delay_probability: float = 0.02
    loss_probability: float = 0.02
    duplicate_probability: float = 0.02
    disk_ms: tuple[float, float] = (0.1, 2.0)
    clock_rates: tuple[float, float] = (0.9, 1.1)
    fault_every_ms: int = 300
    faults: tuple[str, ...] = ()  # the nemesis draws from these; repeated names are drawn more often
    snapshot_every: int = 20
    max_append_bytes: int = 4096
    max_in_flight: int = 8
    clients: int = 3
    keys: int = 4
    think_ms: tuple[float, float] = (5.0, 150.0)
    timeout_ms: int = 1500


SAFE_FAULTS = (
    "crash", "crash_leader", "crash_leader", "stop", "restart", "restart", "stall", "partition", "isolate_leader",
    "isolate_leader", "cut_one_way", "flap", "heal", "heal", "break_connection", "slow_disk", "change_clock",
    "transfer",
)  # fmt: skip
MEMBERSHIP_FAULTS = ("add_learner", "promote", "promote", "remove", "wipe", "replace", "replace", "replace")


# Leaders change often, and each leaves entries behind that not all nodes have.
RESTLESS = Weather(
    voters=5,
    spares=0,
    duration_ms=15_000,
    delay_ms=(0.3, 40.0),
    disk_ms=(0.1, 20.0),
    fault_every_ms=100,
    faults=("crash_leader", "crash_leader", "crash", "restart", "restart", "partition", "isolate_leader", "heal"),
    snapshot_every=1_000_000,
    max_append_bytes=1,
    clients=5,
    think_ms=(1.0, 10.0),
)


def draw_weather(rng: Rng) -> Weather:
    """Draw weather between nearly calm and all faults at once."""
    return draw_restless(rng) if rng.random() < 0.3 else draw_mixed(rng)


def draw_restless(rng: Rng) -> Weather:
    return replace(
        RESTLESS,
        voters=rng.choice([3, 5]),
        spares=rng.randint(0, 1),
        duration_ms=rng.randint(4_000, 12_000),
        fault_every_ms=rng.choice([100, 200]),
        faults=RESTLESS.faults + (MEMBERSHIP_FAULTS if rng.random() < 0.3 else ()),
        loss_probability=rng.choice([0.0, 0.02]),
        snapshot_every=rng.choice([5, 30, 1_000_000]),
        max_append_bytes=rng.choice([1, 100_000]),
    )


def draw_mixed(rng: Rng) -> Weather:
    faults = tuple(fault for fault in SAFE_FAULTS if rng.random() < 0.7)
    if rng.random() < 0.6:
        faults += MEMBERSHIP_FAULTS
    voters = rng.choice([1, 2, 3, 3, 3, 4, 5, 5])
    slowest_delay = rng.choice([2.0, 10.0, 40.0])
    return Weather(
        voters=voters,
        spares=rng.randint(0, 7 - voters if voters > 4 else 2),
        duration_ms=rng.randint(4_000, 12_000),
        delay_ms=(0.3, slowest_delay),
        long_delay_ms=rng.choice([100.0, 400.0, 2000.0]),
        long_delay_probability=rng.choice([0.0, 0.01, 0.1]),
        loss_probability=rng.choice([0.0, 0.01, 0.1, 0.3]),
        duplicate_probability=rng.choice([0.0, 0.02, 0.2]),
        disk_ms=(0.1, rng.choice([1.0, 5.0, 50.0])),
        fault_every_ms=rng.choice([60, 150, 300, 800]),
        faults=faults,
        snapshot_every=rng.choice([3, 10, 40, 1_000_000]),
        max_append_bytes=rng.choice([1, 100, 100_000]),
        max_in_flight=rng.choice([1, 4, 64]),
        clients=rng.randint(1, 5),
        think_ms=(1.0, rng.choice([20.0, 150.0, 400.0])),
    )
