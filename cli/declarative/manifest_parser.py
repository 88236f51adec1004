"""Parse resource files into a desired state, or report everything that is wrong with them. Pure.

Configuration values are kept as written, so that YAML does not interpret `010` or `yes`.
"""

import difflib
import json
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any
from uuid import UUID

import click
import yaml

from lograft.cli.common.nouns import Noun
from lograft.cli.declarative.desired_state import Desired, DesiredSetting, DesiredTopic, Mention, Place, contradictions
from lograft.cli.output.resource_output import API_VERSION
from lograft.cli.resources.config_resources import parse_owner

KINDS = ("Topic", "Config")
_MENTIONED = {
    "Partition": Noun.PARTITION,
    "Broker": Noun.BROKER,
    "Group": Noun.GROUP,
    "Quorum": Noun.QUORUM,
    "Reassignment": Noun.REASSIGNMENT,
    "Context": Noun.CONTEXT,
}

_COUNT = re.compile(r"[1-9][0-9]{0,9}", flags=re.ASCII)
_MOST = 2**31 - 1
_PARTS = ("apiVersion", "kind", "metadata", "spec", "status")
_LIST_PARTS = ("apiVersion", "kind", "metadata", "items")
_METADATA = {"Topic": ("name", "id", "internal"), "Config": ("name", "owner", "key")}
_SPEC = {"Topic": ("partitions", "replicas", "config"), "Config": ("value",)}
_NULL, _INTEGER = "tag:yaml.org,2002:null", "tag:yaml.org,2002:int"
_MERGE = "tag:yaml.org,2002:merge"

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Return the C loader if available. It accepts the same, with different messages."""
_DEEPEST = 1000


class BadManifest(Exception):
    """Invalid resource files. `problems`: each with its position."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


def read_manifests(sources: Iterable[tuple[str, str]]) -> list[Desired]:
    """Parse texts with their names, and return the declared resources in order. Raise `BadManifest` with all
    problems."""
    desired: list[Desired] = []
    problems: list[str] = []
    for source, text in sources:
        reader = _Reader(source)
        reader.read(text)
        desired += reader.desired
        problems += reader.problems
    problems += contradictions(desired)
    if problems:
        raise BadManifest(problems)
    return desired


class _Reader:
    """Parses one text into documents and problems."""

    def __init__(self, source: str) -> None:
        self.desired: list[Desired] = []
        self.problems: list[str] = []
        self._source = source
        self._document = 1
        self._loader: Any = None

    def read(self, text: str) -> None:
        bad = yaml.reader.Reader.NON_PRINTABLE.search(text)
        if bad is not None:
            line = text.count("\n", 0, bad.start()) + 1
            self._say(line, f"character {bad[0]!a} is not allowed in text: is this a YAML or JSON file?")
            return
        text = _without_tabs(text)
        self._loader = _LOADER(text)
        try:
            _check_depth(text)
            while self._loader.check_node():
                self._resource(self._loader.get_node(), is_item=False)
                self._document += 1
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            what = ", ".join(part for part in (error.context, error.problem) if part)
            self._say(mark.line + 1 if mark is not None else 1, f"not valid YAML: {what}")
        except RecursionError:
            self._say(1, "it is nested too deeply")
        finally:
            self._loader.dispose()

    def _resource(self, node: yaml.Node, *, is_item: bool) -> None:
        if _is_null(node):  # a document with only comments
            return
        if not isinstance(node, yaml.MappingNode):
            self._complain(node, "a resource must be a mapping with apiVersion, kind, metadata, spec")
            return
        fields = self._fields(node, "a resource", _LIST_PARTS if _is_list(node) else _PARTS, "")
        version, kind = _text(fields.get("apiVersion")), _text(fields.get("kind"))
        if version != API_VERSION:
            said = f"is {version!r}" if "apiVersion" in fields else "is missing"
            self._complain(fields.get("apiVersion", node), f"apiVersion {said}: it must be {API_VERSION}")
        elif kind == "List" and is_item:
            self._complain(node, "a List cannot contain a List: list its items")
        elif kind == "List":
            self._list(node, fields)
        elif kind in _MENTIONED:
            self._mention(node, kind, fields)
        elif kind not in KINDS:
            self._complain(fields.get("kind", node), _wrong_kind(kind))
        else:
            self._known(node, kind, fields)

    def _list(self, node: yaml.Node, fields: Mapping[str, yaml.Node]) -> None:
        items = fields.get("items", node)
        if not isinstance(items, yaml.SequenceNode):
            self._complain(items, "items is missing or not a list")
            return
        for item in items.value:
            self._resource(item, is_item=True)

    def _known(self, node: yaml.Node, kind: str, fields: Mapping[str, yaml.Node]) -> None:
        metadata = self._part(fields, "metadata", _METADATA[kind])
        spec = self._part(fields, "spec", _SPEC[kind])
        name = _text(metadata.get("name"))
        if not name:
            self._complain(metadata.get("name", node), f"metadata.name is missing: name the {kind.lower()}")
            return
        place = Place(self._source, self._document, node.start_mark.line + 1)
        made: Desired | None
        if kind == "Topic":
            made = self._topic(name, place, metadata, spec)
        else:
            made = self._setting(name, place, metadata, spec, node)
        if made is not None:
            self.desired.append(made)

    # -- kinds

    def _mention(self, node: yaml.Node, kind: str, fields: Mapping[str, yaml.Node]) -> None:
        metadata = self._part(fields, "metadata", None)
        spec = self._part(fields, "spec", None)
        name = _text(metadata.get("name"))
        if not name:
            self._complain(metadata.get("name", node), f"metadata.name is missing: name the {kind.lower()}")
            return
        place = Place(self._source, self._document, node.start_mark.line + 1)
        try:
            said = {key: self._loader.construct_object(value, deep=True) for key, value in spec.items()}
        except ValueError as error:  # such as an invalid date
            self._complain(fields["spec"], f"spec is invalid: {error}")
            return
        self.desired.append(Mention(_MENTIONED[kind], name, said, place))

    def _topic(
        self, name: str, place: Place, metadata: Mapping[str, yaml.Node], spec: Mapping[str, yaml.Node]
    ) -> DesiredTopic:
        return DesiredTopic(
            name,
            place,
            id=self._id(metadata["id"]) if "id" in metadata else None,
            partitions=self._count(spec["partitions"], "spec.partitions") if "partitions" in spec else None,
            replicas=self._count(spec["replicas"], "spec.replicas") if "replicas" in spec else None,
            config=self._config(spec["config"]) if "config" in spec else None,
        )

    def _setting(
        self,
        name: str,
        place: Place,
        metadata: Mapping[str, yaml.Node],
        spec: Mapping[str, yaml.Node],
        node: yaml.Node,
    ) -> DesiredSetting | None:
        whose, _, key = name.rpartition("/")
        try:
            owner = parse_owner(whose)
        except click.UsageError:
            example = "cluster/num.partitions, broker/1/log.level or topic/orders/retention.ms"
            self._complain(metadata["name"], f"metadata.name {name!r} is not a configuration key such as {example}")
            return None
        if "value" not in spec:
            self._complain(node, "spec.value is missing: set a value, or null to unset the key")
            return None
        value = None if _is_null(spec["value"]) else self._value(spec["value"], "spec.value")
        return DesiredSetting(owner, key, value, place)

    # -- values

    def _count(self, node: yaml.Node, where: str) -> int | None:
        if isinstance(node, yaml.ScalarNode) and node.tag == _INTEGER and _COUNT.fullmatch(node.value):
            count = int(node.value)
            if count <= _MOST:
                return count
        said = f"{_text(node)!r}" if isinstance(node, yaml.ScalarNode) else "not a number"
        self._complain(node, f"{where} is {said}: use an integer from 1 to {_MOST}")
        return None

    def _id(self, node: yaml.Node) -> UUID | None:
        try:
            return UUID(_text(node) or "")
        except ValueError:
            self._complain(node, "metadata.id is not a topic id: remove it, unless the file is for one specific topic")
            return None

    def _config(self, node: yaml.Node) -> dict[str, str]:
        if _is_null(node):
            remedy = "use {} to unset all keys, or remove `config` to leave them unchanged"
            self._complain(node, f"spec.config is empty: {remedy}")
            return {}
        fields = self._fields(node, "spec.config", None, "spec.config.")
        return {key: self._value(value, f"spec.config.{key}") for key, value in fields.items()}

    def _value(self, node: yaml.Node, where: str) -> str:
        """Return the value as written. Accept `[compact, delete]` as `compact,delete`."""
        parts = node.value if isinstance(node, yaml.SequenceNode) else [node]
        texts = [_text(part) for part in parts]
        if not texts or any(text is None for text in texts):
            self._complain(node, f"{where} has no value: set one, or remove the key to unset it")
        return ",".join(text for text in texts if text is not None)

    # -- mappings

    def _part(self, fields: Mapping[str, yaml.Node], name: str, known: Collection[str] | None) -> dict[str, yaml.Node]:
        return self._fields(fields[name], name, known, f"{name}.") if name in fields else {}

    def _fields(self, node: yaml.Node, what: str, known: Collection[str] | None, prefix: str) -> dict[str, yaml.Node]:
        """Return the fields by name, with merged ones (`<<`). Names must be unique, and be in `known`, if that is
        given."""
        if not isinstance(node, yaml.MappingNode):
            self._complain(node, f"{what} is empty or not a mapping")
            return {}
        seen: dict[str, None] = {}
        for key, _ in node.value:
            name = _text(key)
            if name is None:
                self._complain(key, f"{what} has a name that is not a string")
            elif name in seen and key.tag != _MERGE:
                self._complain(key, f"{prefix}{name} is set twice")
            seen[name or ""] = None
        self._loader.flatten_mapping(node)
        for key, _ in node.value:
            name = _text(key)
            if known is not None and name is not None and name not in known:
                close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
                hint = f"did you mean {close[0]}?" if close else f"known fields are {', '.join(known)}"
                self._complain(key, f"unknown field {prefix}{name}: {hint}")
        return {_text(key) or "": value for key, value in node.value}

    # -- complaints

    def _complain(self, node: yaml.Node, what: str) -> None:
        self._say(node.start_mark.line + 1, what)

    def _say(self, line: int, what: str) -> None:
        self.problems.append(f"{Place(self._source, self._document, line)}: {what}")


def _text(node: yaml.Node | None) -> str | None:
    """Return a scalar as written, or None if it is not text."""
    return node.value if isinstance(node, yaml.ScalarNode) and not _is_null(node) else None


def _is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == _NULL


def _is_list(node: yaml.MappingNode) -> bool:
    return any((_text(key), _text(value)) == ("kind", "List") for key, value in node.value)


def _wrong_kind(kind: str | None) -> str:
    known = ", ".join(KINDS)
    if kind is None:
        return f"kind is missing: use {known} or List"
    if kind == "GroupOffsets":
        return "import offsets with `lograft import group -f FILE`"
    close = difflib.get_close_matches(kind, (*KINDS, "List"), n=1) or difflib.get_close_matches(
        kind.title(), KINDS, n=1
    )
    return f"kind {kind!r} is unknown: " + (f"did you mean {close[0]}?" if close else f"use {known} or List")


def _check_depth(text: str) -> None:
    """Raise `RecursionError` for text that may nest too deeply: the C loader uses a stack frame per level, and a stack
    overflow would end the process."""
    if len(text) <= _DEEPEST:
        return
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _DEEPEST:
                raise RecursionError
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _without_tabs(text: str) -> str:
    """Replace the tabs that indent JSON, which YAML rejects. JSON strings contain no tabs."""
    if "\t" not in text:
        return text
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return text
    return text.replace("\t", " ")
