"""How grave an event must be to be logged, written as people do: `info`, or `info,lograft.raft=debug`. Pure."""

ROOT = "lograft"

LEVELS = ("debug", "info", "warning", "error")

MODULES = (
    "broker.admitting", "broker.broker_part", "broker.disk_watch", "broker.failure_reports", "broker.fetch_service",
    "broker.group_coordinator", "broker.group_partition", "broker.hosted_logs", "broker.isr_requests",
    "broker.log_directories", "broker.log_level", "broker.node", "broker.produce_service", "broker.replica",
    "broker.replicas", "broker.replication_sink", "broker.replication_source", "broker.server_command",
    "broker.settings_check", "broker.slow_requests", "broker.upkeep",
    "metadata.admin_items", "metadata.broker_session", "metadata.controller_client", "metadata.controller_service",
    "metadata.controller_timers", "metadata.first_records", "metadata.follower", "metadata.heartbeat_service",
    "metadata.heartbeats", "metadata.quorum", "metadata.quorum_service",
    "raft.bootstrapping", "raft.lmdb_store", "raft.node", "raft.peer", "raft.snapshotting", "raft.start_register",
    "raft.transport",
    "storage.directory_use", "storage.disk_space",
)  # fmt: skip
"""Those of a node that log anything."""

ROOMS = tuple(dict.fromkeys(module.partition(".")[0] for module in MODULES))

ACCEPTS = (
    f"one of {', '.join(LEVELS)}; parts may have their own, as info,{ROOT}.raft=debug: "
    f"{', '.join(f'{ROOT}.{room}' for room in ROOMS)}, and their modules that log, as {ROOT}.raft.node"
)
"""What can be written, for people."""

_NAMES = (ROOT, *(f"{ROOT}.{name}" for name in (*ROOMS, *MODULES)))


def parse_levels(text: str) -> dict[str, str] | None:
    """Levels by logger, that of all under `lograft` first if there is one; None if the text is not like that."""
    levels: dict[str, str] = {}
    for word in text.lower().split(","):
        name, equals, level = (part.strip() for part in word.rpartition("="))
        name = name if equals else ROOT
        if level not in LEVELS or name not in _NAMES or name in levels:
            return None
        levels[name] = level
    return dict(sorted(levels.items()))


def levels_text(levels: dict[str, str]) -> str:
    """As `parse_levels` reads it."""
    return ",".join(level if name == ROOT else f"{name}={level}" for name, level in levels.items())


def normal_levels(text: str) -> str | None:
    """The one way to write it; None if it is not like that."""
    levels = parse_levels(text)
    return levels_text(levels) if levels is not None else None
