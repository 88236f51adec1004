"""The desired state that resource files declare. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias
from uuid import UUID

from lograft.cli.common.nouns import Noun
from lograft.cli.resources.config_resources import Owner
from lograft.clients.admin.model.types import ConfigKind


@dataclass(frozen=True, slots=True)
class Place:
    """A position in a file. Documents and lines count from 1."""

    source: str
    document: int
    line: int

    def __str__(self) -> str:
        return f"{self.source}, document {self.document}, line {self.line}"


@dataclass(frozen=True, slots=True)
class DesiredTopic:
    """A declared topic. The cluster chooses None values of a new topic; those of an existing one are left unchanged.
    `config`: the complete configuration of the topic itself. `id`: an existing topic must have this id."""

    name: str
    place: Place
    id: UUID | None = None
    partitions: int | None = None
    replicas: int | None = None
    config: Mapping[str, str] | None = None

    noun = Noun.TOPIC

    @property
    def label(self) -> str:
        return f"{self.noun.value}/{self.name}"


@dataclass(frozen=True, slots=True)
class DesiredSetting:
    """A declared configuration key. A `value` of None unsets it."""

    owner: Owner
    key: str
    value: str | None
    place: Place

    noun = Noun.CONFIG

    @property
    def name(self) -> str:
        return f"{self.owner}/{self.key}"

    @property
    def label(self) -> str:
        return f"{self.noun.value}/{self.name}"


@dataclass(frozen=True, slots=True)
class Mention:
    """A read-only resource in a file, as `get -o yaml` prints it. `spec`: its declared values, which must match."""

    noun: Noun
    name: str
    spec: Mapping[str, Any]
    place: Place

    @property
    def label(self) -> str:
        return f"{self.noun.value}/{self.name}"


Desired: TypeAlias = DesiredTopic | DesiredSetting | Mention


def contradictions(desired: Sequence[Desired]) -> Iterator[str]:
    """Return the resources that are declared twice."""
    seen: dict[str, Place] = {}
    # Metrics replace '.' by '_' in topic names, so no two names may differ only in that.
    similar: dict[str, DesiredTopic] = {}
    configured: dict[str, Place] = {}
    for each in desired:
        first = seen.setdefault(each.label, each.place)
        if first is not each.place:
            yield f"{each.place}: {each.label} is declared twice, first in {first}"
        elif isinstance(each, DesiredTopic):
            other = similar.setdefault(each.name.replace(".", "_"), each)
            if other is not each:
                yield f"{each.place}: {each.label} and {other.label} differ only in '.' and '_', so only one may exist"
            if each.config is not None:
                configured[each.name] = each.place
    for each in desired:
        if isinstance(each, DesiredSetting) and each.owner.kind is ConfigKind.TOPIC and each.owner.name in configured:
            place = configured[each.owner.name]
            yield f"{each.place}: {each.label} conflicts with the `config` of topic/{each.owner.name} in {place}"
