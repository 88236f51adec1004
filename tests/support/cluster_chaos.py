"""Conditions under which simulated clusters are put to a particular test."""

from dataclasses import replace

from lograft.chaos.cluster_weather import ClusterWeather

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
