"""Conditions under which simulated clusters are put to a particular test."""

from dataclasses import replace

from lograft.broker.replica.interfaces import Acks
from lograft.chaos.cluster.world.weather import (
    POLICIES,
    SEGMENTS,
    STORE_LOSSES,
    STORE_WISHES,
    VOTER_WISHES,
    ClusterWeather,
)

# Leaders come and go, and each leaves something behind that not all have. No operator interferes.
RESTLESS_LEADERS = ClusterWeather(
    duration_ms=8_000,
    delay_ms=(0.3, 20.0),
    fault_every_ms=350,
    faults=(
        "kill_leader",
        "isolate_leader",
        "isolate_leader",
        "pause_leader",
        "kill",
        "start",
        "start",
        "heal",
        "heal",
    ),
    topics=1,
    partitions=2,
    producers=2,
    send_every_ms=15.0,
    records_at_once=2,
    delivery_timeout_ms=4_000,
    operators=0,
    lag_ms=400,
)

# Whoever follows is always a little behind, and what is decided is not known at once.
SLOW_NETWORK = replace(
    RESTLESS_LEADERS,
    delay_ms=(10.0, 120.0),
    fault_every_ms=500,
    faults=("kill_leader", "kill_leader", "kill_leader", "kill", "start", "start"),
    lag_ms=10_000,
    askers=4,
    ask_every_ms=(1.0, 10.0),
    client_delay_ms=(0.1, 1.0),
)

# The power fails while disks are busy.
POWER_CUTS = replace(
    RESTLESS_LEADERS, faults=("blackout", "slow_disk", "slow_disk", "slow_disk", "power_failure", "start", "start")
)

# Brokers come and go, the controller stays: often one is left alone.
FEW_IN_SYNC = replace(
    RESTLESS_LEADERS,
    controllers=1,
    is_combined=False,
    min_isr=2,
    fault_every_ms=200,
    faults=("kill_broker", "kill_broker", "kill_leader", "start", "start"),
)

# Operators, and some topics, put up with losses: whoever is there is to lead.
UNCLEAN = ClusterWeather(
    duration_ms=12_000,
    fault_every_ms=1_500,
    faults=("strand", "strand", "kill_leader", "isolate_leader", "start", "heal"),
    topics=1,
    acks=(Acks.ALL, Acks.LEADER),
    think_ms=(100.0, 800.0),
    wishes=("elect_unclean",),
    min_isr=1,
    unclean_probability=0.5,
)

# Bits flip, and brokers come and go.
DAMAGED_DISKS = ClusterWeather(
    duration_ms=12_000,
    fault_every_ms=700,
    faults=("rot", "rot", "rot", "forget_tails", "kill_leader", "power_failure", "start"),
    topics=1,
    operators=0,
    segment_bytes=1_024,
    min_isr=2,
    least_min_isr=2,
)

# Somebody removes files of a replica, mostly of the next leader's.
LOST_FILES = replace(
    DAMAGED_DISKS,
    duration_ms=6_000,
    fault_every_ms=600,
    faults=("lose_files", "lose_files", "lose_files", "kill_all", "kill_leader", "strand", "start"),
    partitions=1,
    consumers=1,
    producers=1,
    askers=0,
    send_every_ms=40.0,
)

# Disks are full, cannot be written or synced, or are gone.
FAILING_DISKS = replace(
    DAMAGED_DISKS,
    directories=2,
    faults=("fill_disk", "fail_writes", "fail_sync", "wipe", "kill", "start", "slow_disk"),
)

# Disks are full for a while, now this one and now that.
FULL_DISKS = replace(
    DAMAGED_DISKS,
    directories=2,
    faults=("fill_disk", "fill_disk", "fill_directory", "kill_leader", "power_failure", "start"),
    members=2,
)

# What is in memory counts as stored; and machines fail, one at a time.
TRUSTED_MEMORY = replace(
    DAMAGED_DISKS,
    flush_mode="os",
    faults=("power_failure", "blink", "crash_in_call", "kill", "kill_leader", "isolate_leader", "start", "heal"),
)

# Old records go while followers are away.
SHORT_MEMORY = replace(
    DAMAGED_DISKS,
    fault_every_ms=1_000,
    faults=("kill", "kill_leader", "cut", "pause", "isolate_leader", "start", "heal"),
    send_every_ms=20.0,
    retention_bytes=2_048,
)

# Of each key only the latest stays, and what stays moves, while brokers come and go.
COMPACTED = ClusterWeather(
    duration_ms=12_000,
    fault_every_ms=700,
    faults=(
        "kill", "kill_leader", "power_failure", "crash_in_call", "crash_in_call", "isolate_leader", "start", "heal",
        "forget_tails",
    ),
    topics=1,
    send_every_ms=20.0,
    think_ms=(100.0, 2_000.0),
    wishes=("configure", "configure", "configure", "recreate", "reassign", "elect_preferred"),
    settings=SEGMENTS + POLICIES,
    segment_bytes=1_024,
    policies=("compact", "compact,delete"),
    delete_retention_ms=500,
    record_keys=6,
    deletion_probability=0.2,
)  # fmt: skip

# Partitions move, to more brokers and to fewer, to one that is new, and away from others; directories come and go.
MOVING = ClusterWeather(
    brokers=4,
    late_brokers=1,
    racks=2,
    directories=2,
    duration_ms=15_000,
    fault_every_ms=1_500,
    faults=("take_away", "take_away", "fill_directory", "fail_writes", "kill_leader", "cut", "start", "heal"),
    topics=2,
    operators=2,
    think_ms=(100.0, 1_200.0),
    wishes=("reassign", "reassign", "reassign", "cancel", "cancel", "drain", "spread", "add_partition", "create"),
)

# Voters are added and removed, and leaders of the quorum change.
CHANGING_QUORUM = ClusterWeather(
    duration_ms=15_000,
    fault_every_ms=2_000,
    faults=("kill", "pause", "cut", "start", "start", "heal", "heal"),
    topics=1,
    think_ms=(100.0, 1_000.0),
    wishes=(*VOTER_WISHES, "reassign"),
)

# Controllers lose what they know, and are replaced by themselves.
LOST_STORES = replace(
    CHANGING_QUORUM, faults=(*STORE_LOSSES, "kill", "start", "heal"), wishes=(*STORE_WISHES, "set_min_isr")
)

# Members of a group come and go while its coordinator does.
GROUPS = replace(
    RESTLESS_LEADERS,
    duration_ms=12_000,
    fault_every_ms=900,
    faults=("kill_leader", "isolate_leader", "pause_leader", "kill", "cut", "start", "start", "heal", "heal"),
    send_every_ms=60.0,
    consumers=0,
    askers=0,
    members=4,
)

# Machines fail in the middle of a call to their disk: of what is written at once, some pages are there and some not.
TORN_WRITES = replace(
    RESTLESS_LEADERS,
    duration_ms=6_000,
    fault_every_ms=150,
    faults=("crash_in_call", "crash_in_call", "crash_in_call", "start"),
    partitions=1,
    send_every_ms=40.0,
    records_at_once=60,
    consumers=0,
    askers=0,
    segment_bytes=1 << 24,
)

# Somebody puts old copies of brokers' disks back, and then the others are gone for a while.
COPIES_PUT_BACK = replace(
    RESTLESS_LEADERS,
    faults=(
        "copy",
        "put_copy_back",
        "put_copy_back",
        "kill_leader",
        "kill_leader",
        "strand",
        "start",
        "crash_in_start",
    ),
    min_isr=2,
    least_min_isr=2,
)
