"""Reassignments as resources: plans, which can be read back from files, and moves in progress. Pure."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeGuard

from lograft.cli.common.input_files import yaml_trouble
from lograft.cli.output.resource_output import API_VERSION, Column, Resource, resource
from lograft.clients.admin.model.types import Reassignment, ReplicaDescription
from lograft.clients.admin.planning.reassignment_plan import Move
from lograft.clients.types import TopicPartition

KIND = "Reassignment"
_MAX_ID = 2**31 - 1


class BadPlan(ValueError):
    """An invalid plan. The message names the problem and its place."""


def _resource(name: TopicPartition, before: Sequence[int] | None, after: Sequence[int]) -> Resource:
    spec = ({"from": list(before)} if before is not None else {}) | {"to": list(after)}
    metadata = {"name": f"{name.topic}-{name.partition}", "topic": name.topic, "partition": name.partition}
    return resource(KIND, metadata, spec=spec)


# -- planned


def move_resource(move: Move) -> Resource:
    return _resource(move.partition, move.before, move.after)


def _listed(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers))


def _change(names: tuple[str, str]) -> Any:
    """Return the brokers in the first list that are not in the second."""
    first, second = names
    return lambda each: [broker for broker in each["spec"][first] if broker not in each["spec"][second]]


MOVE_COLUMNS = (
    Column("PARTITION", lambda each: each["metadata"]["name"]),
    Column("FROM", lambda each: each["spec"]["from"]),
    Column("TO", lambda each: each["spec"]["to"]),
    Column("ADDING", _change(("to", "from")), is_wide=True),
    Column("REMOVING", _change(("from", "to")), is_wide=True),
)


def summary_of(moves: Sequence[Move]) -> str:
    """Summarise a plan in one line."""
    copied = sum(len(move.adding) for move in moves)
    leaders = sum(move.before[0] != move.after[0] for move in moves)
    return (
        f"{_counted(len(moves), 'partition')} would change: {_counted(copied, 'replica')} to copy, "
        f"{_counted(leaders, 'preferred leader')} to change"
    )


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


# -- out of a file


def read_plan(text: str) -> dict[TopicPartition, tuple[tuple[int, ...] | None, tuple[int, ...]]]:
    """Parse the moves of a plan: one reassignment or a list of them, each partition once, in JSON or YAML. Raise
    `BadPlan` if it is anything else."""
    document = _parse(text)
    if not isinstance(document, dict) or document.get("apiVersion") != API_VERSION:
        raise BadPlan(f"it is not a resource with `apiVersion: {API_VERSION}`")
    items = document.get("items") if document.get("kind") == "List" else [document]
    if not isinstance(items, list):
        raise BadPlan("the list has no `items`")
    planned: dict[TopicPartition, tuple[tuple[int, ...] | None, tuple[int, ...]]] = {}
    for number, item in enumerate(items):
        where = f"items[{number}]" if document.get("kind") == "List" else "it"
        name, before, after = _read_item(item, where)
        if name in planned:
            raise BadPlan(f"{where} repeats partition {name.topic}-{name.partition}")
        planned[name] = before, after
    return planned


def _parse(text: str) -> Any:
    import yaml

    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # PyYAML also raises other exceptions than its own
        raise BadPlan(f"it is neither JSON nor YAML: {yaml_trouble(error)}") from None


def _read_item(item: Any, where: str) -> tuple[TopicPartition, tuple[int, ...] | None, tuple[int, ...]]:
    if not isinstance(item, dict) or item.get("kind") != KIND:
        raise BadPlan(f"{where} is not of `kind: {KIND}`")
    metadata, spec = item.get("metadata"), item.get("spec")
    if not isinstance(metadata, dict) or not isinstance(spec, dict):
        raise BadPlan(f"{where} lacks `metadata` or `spec`")
    unknown = [str(key) for key in spec if key not in ("from", "to")]
    if unknown:
        raise BadPlan(f"{where} has an unknown field spec.{unknown[0]}: use `from` and `to`")
    topic, partition = metadata.get("topic"), metadata.get("partition")
    if not isinstance(topic, str) or not topic or not _is_number(partition):
        raise BadPlan(f"{where} lacks metadata.topic or metadata.partition")
    before = _brokers(spec["from"], f"{where}.spec.from") if "from" in spec else None
    return TopicPartition(topic, partition), before, _brokers(spec.get("to"), f"{where}.spec.to")


def _brokers(value: Any, where: str) -> tuple[int, ...]:
    if not isinstance(value, list) or not value or not all(map(_is_number, value)):
        raise BadPlan(f"{where} is not a list of broker ids, such as [1, 2, 3]")
    if len(dict.fromkeys(value)) < len(value):
        raise BadPlan(f"{where} has a broker twice: {_listed(value)}")
    return tuple(value)


def _is_number(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_ID


# -- under way


def progress_resource(
    reassignment: Reassignment, replicas: Mapping[tuple[TopicPartition, int], ReplicaDescription], leader: int | None
) -> Resource:
    """Return a reassignment with the progress of each added replica, from the `replicas` that brokers reported."""
    led = replicas.get((reassignment.partition, leader)) if leader is not None else None
    original = [broker for broker in reassignment.replicas if broker not in reassignment.adding]
    shown = _resource(reassignment.partition, original, reassignment.target)
    shown["status"] = {
        "adding": [
            _added(reassignment, broker, replicas.get((reassignment.partition, broker)), led)
            for broker in reassignment.adding
        ],
        "removing": list(reassignment.removing),
        "leaderEndOffset": led.end if led is not None else None,
        "leaderBytes": led.size_bytes if led is not None else None,
    }
    return shown


def _added(
    reassignment: Reassignment, broker: int, copy: ReplicaDescription | None, led: ReplicaDescription | None
) -> Resource:
    behind = max(led.end - copy.end, 0) if led is not None and copy is not None else None
    return {
        "broker": broker,
        "inSync": broker in reassignment.adding_in_sync,
        "endOffset": copy.end if copy is not None else None,
        "behind": behind,
        "bytes": copy.size_bytes if copy is not None else None,
    }


def records_behind(each: Resource) -> int | None:
    """Return the records that all added replicas lack, or None if a broker did not answer."""
    behind = [added["behind"] for added in each["status"]["adding"]]
    return sum(behind) if all(count is not None for count in behind) else None


def _in_sync(each: Resource) -> str:
    adding = each["status"]["adding"]
    return f"{sum(added['inSync'] for added in adding)}/{len(adding)}"


def _copied(each: Resource) -> str | None:
    """Return the copied share of the leader's bytes in percent. Brokers roll segments independently, so the final share
    may differ slightly from 100 %."""
    adding, whole = each["status"]["adding"], each["status"]["leaderBytes"]
    sizes = [added["bytes"] for added in adding]
    if whole is None or any(size is None for size in sizes):
        return None
    if not adding or not whole:
        return "100%"
    return f"{min(100, 100 * sum(sizes) // (whole * len(adding)))}%"


PROGRESS_COLUMNS = (
    Column("PARTITION", lambda each: each["metadata"]["name"]),
    Column("FROM", lambda each: each["spec"]["from"]),
    Column("TO", lambda each: each["spec"]["to"]),
    Column("IN-SYNC", _in_sync),
    Column("BEHIND", records_behind, is_number=True),
    Column("COPIED", _copied, is_number=True),
    Column("ADDING", lambda each: [added["broker"] for added in each["status"]["adding"]], is_wide=True),
    Column("REMOVING", lambda each: each["status"]["removing"], is_wide=True),
)
