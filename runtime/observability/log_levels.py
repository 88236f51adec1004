"""Log levels in text: `info`, or `info,lograft.raft=debug`. Pure."""

ROOT = "lograft"

LEVELS = ("debug", "info", "warning", "error")

MODULES = (
    "broker.fetch.fetch_service",
    "broker.groups.coordinator",
    "broker.groups.offsets_partition",
    "broker.hosting.disk_watch",
    "broker.hosting.failure_reports",
    "broker.hosting.log_directories",
    "broker.hosting.log_lifecycle",
    "broker.hosting.maintenance",
    "broker.hosting.replica_manager",
    "broker.node.broker_role",
    "broker.node.cluster_settings_check",
    "broker.node.log_level_setting",
    "broker.node.node",
    "broker.node.server_command",
    "broker.produce.batch_admission",
    "broker.produce.produce_service",
    "broker.replica.replica",
    "broker.replication.follower_client",
    "broker.replication.isr_requests",
    "broker.replication.leader_server",
    "broker.requests.slow_requests",
    "metadata.controller.initial_records",
    "metadata.controller.services.admin_items",
    "metadata.controller.services.heartbeat_service",
    "metadata.controller.services.internal_service",
    "metadata.controller.services.quorum_service",
    "metadata.controller.timers",
    "metadata.membership.broker_session",
    "metadata.membership.controller_client",
    "metadata.membership.heartbeat_client",
    "metadata.membership.metadata_follower",
    "metadata.quorum_view",
    "raft.bootstrap.bootstrapper",
    "raft.bootstrap.start_register",
    "raft.driver.raft_node",
    "raft.driver.snapshots",
    "raft.store.lmdb_store",
    "raft.transport.peer_connection",
    "raft.transport.raft_transport",
    "storage.state.disk_space",
    "storage.state.used_epoch",
)
"""The modules of a node that log."""

ROOMS = tuple(dict.fromkeys(module.partition(".")[0] for module in MODULES))

ACCEPTS = (
    f"one of {', '.join(LEVELS)}; parts may have their own, as info,{ROOT}.raft=debug: "
    f"{', '.join(f'{ROOT}.{room}' for room in ROOMS)}, and folders and modules in them that log, as {ROOT}.raft.driver"
)
"""The accepted syntax, for error messages."""


def _with_folders(module: str) -> list[str]:
    """Return the names of the module and of its parent packages, from `ROOT` down."""
    parts = [ROOT, *module.split(".")]
    return [".".join(parts[:depth]) for depth in range(1, len(parts) + 1)]


_NAMES = tuple(dict.fromkeys(name for module in MODULES for name in _with_folders(module)))


def parse_levels(text: str) -> dict[str, str] | None:
    """Return levels by logger, with that of `lograft` itself first if given, or None if the text is malformed."""
    levels: dict[str, str] = {}
    for word in text.lower().split(","):
        name, equals, level = (part.strip() for part in word.rpartition("="))
        name = name if equals else ROOT
        if level not in LEVELS or name not in _NAMES or name in levels:
            return None
        levels[name] = level
    return dict(sorted(levels.items()))


def levels_text(levels: dict[str, str]) -> str:
    """Return levels as text for `parse_levels`."""
    return ",".join(level if name == ROOT else f"{name}={level}" for name, level in levels.items())


def normal_levels(text: str) -> str | None:
    """Return the text in normal form, or None if it is malformed."""
    levels = parse_levels(text)
    return levels_text(levels) if levels is not None else None
