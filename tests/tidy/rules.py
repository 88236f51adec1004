"""What a module imports, calls and iterates over, read from its syntax tree."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

ROOMS = ["proto", "runtime", "storage", "raft", "metadata", "broker", "clients", "chaos"]

# The import table of the house: each room, and the rooms it may import.
MAY_IMPORT = {
    "proto": [],
    "runtime": ["proto"],
    "storage": ["runtime"],
    "raft": ["runtime", "proto"],
    "metadata": ["raft", "runtime", "proto"],
    "broker": ["metadata", "raft", "storage", "runtime", "proto"],
    "clients": ["proto", "runtime", "storage"],
    "chaos": ["broker", "metadata", "raft", "storage", "runtime", "proto", "clients"],
}

# Of storage, the clients see the batch codec and the dump, not the log.
CLIENTS_MAY_SEE_OF_STORAGE = [
    "arrow", "batch", "columns", "compression", "dump", "errors", "header", "record", "rows", "sections",
]  # fmt: skip

# Clocks, dice, threads and sockets come from the runtime alone.
OUTSIDE_WORLD = [
    "concurrent", "fcntl", "grpc", "multiprocessing", "queue", "random", "secrets", "select", "selectors", "socket",
    "subprocess", "threading", "time", "uuid",
]  # fmt: skip
HARMLESS_NAMES = {("uuid", "UUID"), ("concurrent.futures", "Future")}  # types, not sources of ids or threads
OUTSIDE_CALLS = [
    "os.urandom", "datetime.now", "datetime.utcnow", "datetime.today", "date.today", "datetime.datetime.now",
    "datetime.datetime.utcnow", "datetime.date.today", "asyncio.to_thread", "asyncio.open_connection",
    "asyncio.start_server",
]  # fmt: skip
OUTSIDE_METHODS = ["run_in_executor"]

# Decisions without effects: no IO, no clock, no await, no log, and no order that depends on hashing.
PURE = [
    "storage/batch_cleaner.py", "storage/checkpoint.py", "storage/columns.py", "storage/compaction_plan.py",
    "storage/config.py", "storage/epochs.py", "storage/errors.py", "storage/frames.py", "storage/header.py",
    "storage/index.py", "storage/key_map.py", "storage/names.py", "storage/producer_state.py",
    "storage/retention_plan.py", "storage/rows.py", "storage/sealed_file.py", "storage/sections.py",
    "storage/tail.py", "storage/verifying.py",
    "proto/errors.py", "proto/methods.py", "proto/wire.py",
    "raft/bootstrap.py", "raft/bootstrap_codec.py", "raft/codec.py", "raft/configuration.py",
    "raft/configuration_history.py", "raft/core.py", "raft/election.py", "raft/entries.py", "raft/errors.py",
    "raft/following.py", "raft/leading.py", "raft/log.py", "raft/messages.py", "raft/outbox.py", "raft/progress.py",
    "raft/ready.py", "raft/roles.py", "raft/snapshot_assembly.py", "raft/state_codec.py", "raft/status.py",
    "raft/store_shape.py",
    "runtime/exposition.py", "runtime/histogram.py", "runtime/log_levels.py", "runtime/node_proof.py",
    "runtime/patience.py",
    "metadata/add_partitions.py", "metadata/admin_codec.py", "metadata/admin_decisions.py",
    "metadata/admin_partitions.py", "metadata/alter_configs.py", "metadata/alter_partition.py", "metadata/broker.py",
    "metadata/broker_checks.py", "metadata/broker_states.py", "metadata/cluster_changes.py",
    "metadata/cluster_codec.py", "metadata/cluster_config.py", "metadata/config_key.py",
    "metadata/config_resource.py", "metadata/create_topic.py", "metadata/decision.py", "metadata/delete_topic.py",
    "metadata/delta_buffer.py", "metadata/describe_configs.py", "metadata/each_partition.py",
    "metadata/elect_leaders.py", "metadata/errors.py", "metadata/failures.py", "metadata/image.py",
    "metadata/image_snapshot.py", "metadata/internal_topic_config.py",
    "metadata/internal_topics.py", "metadata/lag.py", "metadata/leader_balance.py",
    "metadata/leader_spread.py", "metadata/leaving.py", "metadata/log_ends.py",
    "metadata/new_partitions.py", "metadata/partition.py", "metadata/partition_change.py", "metadata/placement.py",
    "metadata/producer_ids.py", "metadata/reassignment.py", "metadata/record_codec.py", "metadata/records.py",
    "metadata/registration.py", "metadata/request_checks.py", "metadata/sessions.py", "metadata/settings.py",
    "metadata/spread.py", "metadata/stream_errors.py", "metadata/topic_checks.py", "metadata/topic_config.py",
    "metadata/topic_names.py", "metadata/unregister_broker.py", "metadata/wire.py",
    "broker/config_values.py", "broker/end_history.py", "broker/fetch_outbox.py", "broker/following.py",
    "broker/group_assignors.py", "broker/group_draft.py", "broker/group_errors.py", "broker/group_membership.py",
    "broker/group_offsets.py", "broker/group_records.py", "broker/group_replay.py", "broker/group_state.py",
    "broker/isr.py", "broker/leading.py", "broker/matching.py", "broker/metric_families.py",
    "broker/node_config.py", "broker/plain_records.py", "broker/produce_requests.py", "broker/readable_waiters.py",
    "broker/readiness.py",
    "broker/replica_errors.py", "broker/replication_codec.py", "broker/replication_outbox.py",
    "broker/service_errors.py", "broker/topic_log_config.py", "broker/traffic.py", "broker/wanted_partitions.py",
    "clients/accumulator.py", "clients/admin_codec.py", "clients/admin_types.py", "clients/batch_sealing.py",
    "clients/bootstrap.py", "clients/cli/amounts.py", "clients/cli/contexts.py", "clients/cli/group_verdict.py",
    "clients/cli/jsonpath.py", "clients/cli/jsonpath_parser.py", "clients/cli/load_resources.py",
    "clients/cli/offset_targets.py", "clients/cli/stories.py",
    "clients/cli/nouns.py", "clients/cli/resources.py", "clients/cli/selection.py", "clients/times.py",
    "clients/cli/escapes.py", "clients/cli/json_forms.py", "clients/cli/record_format.py",
    "clients/cli/record_forms.py",
    "clients/cli/apply_plan.py", "clients/cli/declared.py", "clients/cli/desired.py", "clients/cli/manifests.py",
    "clients/cli/explained_fields.py", "clients/cli/top_lines.py", "clients/cli/top_view.py",
    "clients/cluster_view.py", "clients/cli/config_resources.py", "clients/consumer_metrics.py",
    "clients/consumer_options.py", "clients/dev_layout.py", "clients/errors.py", "clients/fates.py",
    "clients/fetch_credit.py", "clients/fetched_chunk.py", "clients/fetched_partition.py", "clients/given_offsets.py",
    "clients/group_member.py", "clients/cli/group_resources.py", "clients/group_types.py", "clients/leader_layout.py",
    "clients/metrics.py", "clients/option_checks.py", "clients/parcel.py",
    "clients/partition_queue.py", "clients/partitioning.py", "clients/pending_batch.py", "clients/placing.py",
    "clients/producer_metrics.py", "clients/producer_options.py", "clients/reassignment_plan.py",
    "clients/cli/reassignment_resources.py", "clients/record_checks.py", "clients/record_columns.py",
    "clients/record_queue.py", "clients/record_run.py", "clients/replica_layout.py", "clients/serializers.py",
    "clients/spark/offset_options.py", "clients/spark/options.py", "clients/spark/ranges.py",
    "clients/spark/topic_choice.py", "clients/staging.py", "clients/topic_partition.py",
    "chaos/cluster_checks.py", "chaos/cluster_compaction_checks.py", "chaos/cluster_history.py",
    "chaos/cluster_marks.py", "chaos/cluster_weather.py", "chaos/live/live_layout.py", "chaos/live/report.py",
    "chaos/live/timeline_picture.py",
    "chaos/live/anomalies.py", "chaos/live/entries.py", "chaos/live/entry_codec.py",
    "chaos/live/generations.py", "chaos/live/group_offset_checks.py", "chaos/live/group_owner_checks.py",
    "chaos/live/history.py", "chaos/live/history_index.py", "chaos/live/leader_checks.py",
    "chaos/live/log_checks.py", "chaos/live/loss_checks.py", "chaos/live/measures.py", "chaos/live/reader_checks.py",
    "chaos/live/register_checks.py", "chaos/live/replica_checks.py", "chaos/live/verdict.py",
]  # fmt: skip
IMPURE_IMPORTS = ["asyncio", "logging", "os", "structlog", "io", "pathlib", "shutil", "tempfile"]


@dataclass(frozen=True)
class Finding:
    """Something the rules forbid, and where."""

    path: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}"


def modules() -> Iterator[tuple[str, str, ast.Module]]:
    """Every module of every room: the room, its path, its tree."""
    for room in ROOMS:
        for path in sorted((ROOT / room).glob("**/*.py")):
            if not path.name.endswith("_pb2.py"):
                yield room, str(path.relative_to(ROOT)), ast.parse(path.read_text())


def imported_names(tree: ast.Module) -> Iterator[tuple[int, str, str | None]]:
    """(line, module, name) of each import; the name is None for `import module`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name, None
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "absolute imports only"
            for alias in node.names:
                yield node.lineno, node.module or "", alias.name


def check_import_table(room: str, path: str, tree: ast.Module) -> Iterator[Finding]:
    for line, module, name in imported_names(tree):
        full = f"{module}.{name}" if name is not None else module
        if full.split(".")[0] != "lograft":
            continue
        parts = [*full.split("."), "", ""]
        other, inner = parts[1], parts[2]
        if other not in ROOMS:
            yield Finding(path, line, f"{room}/ may not import the public face ({full})")
        elif other != room and other not in MAY_IMPORT[room]:
            yield Finding(path, line, f"{room}/ may not import {other}/ ({full})")
        elif room == "clients" and other == "storage" and inner not in CLIENTS_MAY_SEE_OF_STORAGE:
            yield Finding(path, line, f"clients/ may see only the batch codec and the dump of storage/ ({full})")


def check_outside_world(room: str, path: str, tree: ast.Module) -> Iterator[Finding]:
    if room == "runtime":
        return
    for line, module, name in imported_names(tree):
        if module.split(".")[0] in OUTSIDE_WORLD and (module, name) not in HARMLESS_NAMES:
            yield Finding(path, line, f"{module} belongs to runtime/")
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called in OUTSIDE_CALLS or called.split(".")[-1] in OUTSIDE_METHODS:
                yield Finding(path, node.lineno, f"{called} belongs to runtime/")


def check_purity(path: str, tree: ast.Module) -> Iterator[Finding]:
    for line, module, _ in imported_names(tree):
        if module.split(".")[0] in IMPURE_IMPORTS:
            yield Finding(path, line, f"a pure module imports {module}")
    for node in ast.walk(tree):
        if isinstance(node, ast.AsyncFunctionDef | ast.Await):
            yield Finding(path, node.lineno, "a pure module awaits")
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("open", "print", "input"):
            yield Finding(path, node.lineno, f"a pure module calls {ast.unparse(node.func)}")
    yield from check_set_iteration(path, tree)


def check_set_iteration(path: str, tree: ast.Module) -> Iterator[Finding]:
    """Iterating over a set gives an order that differs from run to run."""
    sets = _names_of_sets(tree)
    for node in ast.walk(tree):
        iterated: list[ast.expr] = []
        if isinstance(node, ast.For):
            iterated = [node.iter]
        elif isinstance(node, ast.ListComp | ast.DictComp | ast.GeneratorExp):
            iterated = [generator.iter for generator in node.generators]
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("list", "tuple", "iter", "enumerate", "next"):
            iterated = node.args[:1]
        for expression in iterated:
            if _is_set(expression, sets):
                yield Finding(path, expression.lineno, f"iterates over a set: {ast.unparse(expression)}")


def _is_set(node: ast.expr, sets: list[str]) -> bool:
    if isinstance(node, ast.Set | ast.SetComp):
        return True
    if isinstance(node, ast.Call) and ast.unparse(node.func) in ("set", "frozenset"):
        return True
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr | ast.BitAnd | ast.Sub | ast.BitXor):
        return _is_set(node.left, sets) or _is_set(node.right, sets)
    return ast.unparse(node) in sets


def _names_of_sets(tree: ast.Module) -> list[str]:
    """Names and attributes that the module itself annotates or assigns as sets."""
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.arg) and node.annotation is not None and _annotates_set(node.annotation):
            names.append(node.arg)
        elif isinstance(node, ast.AnnAssign) and _annotates_set(node.annotation):
            names += [ast.unparse(node.target), f"self.{ast.unparse(node.target)}"]
        elif isinstance(node, ast.Assign) and _is_set(node.value, []):
            names += [ast.unparse(target) for target in node.targets]
    return names


def _annotates_set(annotation: ast.expr) -> bool:
    return ast.unparse(annotation).strip("'\"").split("[")[0] in ("set", "frozenset", "AbstractSet", "Set")
