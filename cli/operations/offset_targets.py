"""Target offsets of a group, as flags and files express them. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from lograft.cli.output.resource_output import API_VERSION, Resource, resource
from lograft.clients.admin.model.group_types import GroupOffset
from lograft.clients.times import BadTime, Earliest, Latest, Moment, parse_moment
from lograft.clients.types import MAX_INTEGER, OffsetAndMetadata, TopicPartition

KIND = "GroupOffsets"

_OFFSET = re.compile(r"[0-9]{1,12}", flags=re.ASCII)  # 13 digits are a timestamp
_TOPIC = re.compile(r"([^:/]+)(?::([0-9]{1,9}(?:,[0-9]{1,9})*))?", flags=re.ASCII)


@dataclass(frozen=True, slots=True)
class Exactly:
    offset: int


class BadTarget(ValueError):
    """An invalid target. The message has the given text and the accepted forms."""


def parse_target(text: str, now_ms: int) -> Earliest | Latest | Moment | Exactly:
    if _OFFSET.fullmatch(text.strip()):
        return Exactly(int(text))
    try:
        return parse_moment(text, now_ms)
    except BadTime as error:
        raise BadTarget(f"{error}; or an offset") from None


class TopicChoice(NamedTuple):
    """A topic and partition numbers; without numbers, all its partitions."""

    topic: str
    numbers: tuple[int, ...]


def parse_topic_choice(text: str) -> TopicChoice:
    """Parse `orders`, `orders:0` or `orders:0,2`."""
    match = _TOPIC.fullmatch(text)
    if match is None:
        raise BadTarget(f"{text!r} is not TOPIC or TOPIC:PARTITION,..., such as orders or orders:0,2")
    return TopicChoice(match[1], tuple(map(int, match[2].split(","))) if match[2] else ())


# -- from one offset to another


class OffsetChange(NamedTuple):
    """A changed offset. `before` is None if nothing is committed."""

    partition: TopicPartition
    before: int | None
    after: int
    end: int


def change_resource(group: str, change: OffsetChange) -> Resource:
    topic, number = change.partition
    return resource(
        "OffsetChange",
        {"name": f"{topic}-{number}", "group": group, "topic": topic, "partition": number},
        status={
            "from": change.before,
            "to": change.after,
            "end": change.end,
            "lag": max(change.end - change.after, 0),
        },
    )


class Bounds(NamedTuple):
    """The range of offsets at which a consumer can start, including the end offset."""

    start: int
    end: int


def out_of_bounds(wanted: Mapping[TopicPartition, int], bounds: Mapping[TopicPartition, Bounds]) -> list[str]:
    """Describe the offsets that are out of range."""
    return [
        f"offset {offset} of {name.topic}-{name.partition} is out of range {bounds[name].start} to {bounds[name].end}"
        for name, offset in wanted.items()
        if not bounds[name].start <= offset <= bounds[name].end
    ]


def nearest(offset: int, bounds: Bounds) -> int:
    return min(max(offset, bounds.start), bounds.end)


# -- files


def offsets_resource(group: str, offsets: Mapping[TopicPartition, GroupOffset]) -> Resource:
    entries: list[Resource] = []
    for name, offset in offsets.items():
        entry: Resource = {"topic": name.topic, "partition": name.partition, "offset": offset.committed}
        entries.append(entry | ({"metadata": offset.metadata} if offset.metadata else {}))
    return resource(KIND, {"name": group}, spec={"offsets": entries})


class GroupFile(NamedTuple):
    group: str
    offsets: dict[TopicPartition, OffsetAndMetadata]


def read_group_files(documents: Sequence[Any]) -> list[GroupFile]:
    """Parse documents of `offsets_resource`, or lists of them. Raise `BadTarget` with the number of an invalid one."""
    found: list[GroupFile] = []
    for number, document in enumerate(documents, start=1):
        where = f"document {number}"
        if document is None:
            continue
        if isinstance(document, dict) and document.get("kind") == "List":
            items = document.get("items")
            if not isinstance(items, list):
                raise BadTarget(f"{where}: List has no items")
            found += [_read(item, f"{where}, items[{at}]") for at, item in enumerate(items)]
        else:
            found.append(_read(document, where))
    if not found:
        raise BadTarget("it contains no group")
    names = [each.group for each in found]
    for name in names:
        if names.count(name) > 1:
            raise BadTarget(f"it contains group {name!r} more than once")
    return found


def _read(document: Any, where: str) -> GroupFile:
    if not isinstance(document, dict):
        raise BadTarget(f"{where} is {document!r:.50}, not a resource")
    for key, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
        if document.get(key) != expected:
            raise BadTarget(f"{where}: {key} is {document.get(key)!r:.50}, not {expected}")
    metadata, spec = document.get("metadata"), document.get("spec")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(name, str) or not name:
        raise BadTarget(f"{where}: metadata.name is {name!r:.50}, not a group name")
    entries = spec.get("offsets") if isinstance(spec, dict) else None
    if not isinstance(entries, list):
        raise BadTarget(f"{where}: spec.offsets is {entries!r:.50}, not a list")
    offsets: dict[TopicPartition, OffsetAndMetadata] = {}
    for at, entry in enumerate(entries):
        partition, offset = _read_entry(entry, f"{where}: spec.offsets[{at}]")
        if partition in offsets:
            raise BadTarget(f"{where}: spec.offsets[{at}]: duplicate partition {partition.topic}-{partition.partition}")
        offsets[partition] = offset
    return GroupFile(name, offsets)


def _read_entry(entry: Any, where: str) -> tuple[TopicPartition, OffsetAndMetadata]:
    if not isinstance(entry, dict):
        raise BadTarget(f"{where} is {entry!r:.50}, not a mapping with topic, partition and offset")
    for key in entry:
        if key not in ("topic", "partition", "offset", "metadata"):
            raise BadTarget(f"{where}: unknown field {key!r}: use topic, partition, offset and metadata")
    topic, note = entry.get("topic"), entry.get("metadata", "")
    if not isinstance(topic, str) or not topic:
        raise BadTarget(f"{where}: topic is {topic!r:.50}, not a name")
    if not isinstance(note, str):
        raise BadTarget(f"{where}: metadata is {note!r:.50}, not a string")
    for key, most in (("partition", 2**31 - 1), ("offset", MAX_INTEGER)):
        number = entry.get(key)
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= most:
            raise BadTarget(f"{where}: {key} is {number!r:.50}, not a number from 0")
    return TopicPartition(topic, entry["partition"]), OffsetAndMetadata(entry["offset"], note)
