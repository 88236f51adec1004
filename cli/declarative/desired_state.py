"""What resource files want the cluster to have. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias
from uuid import UUID

from lograft.cli.common.nouns import Noun
from lograft.cli.resources.config_resources import Owner
from lograft.clients.admin.model.types import ConfigKind


@dataclass(frozen=True, slots=True)
class Place:
    """Where something is said. Documents and lines count from 1."""

    source: str
    document: int
    line: int

    def __str__(self) -> str:
        return f"{self.source}, document {self.document}, line {self.line}"


@dataclass(frozen=True, slots=True)
class DesiredTopic:
    """What is None is not said: it is up to the cluster for a new topic, and stays as it is for another. `config`: all
    that is to be set on the topic itself. `id`: the topic is meant that has this id, if there is one of the name."""

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
    """One key of a configuration. `value` None: it is not to be set."""

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
    """A resource that cannot be declared, as `get -o yaml` shows it: a file that has it can say nothing new of it.
    `spec`: what it says."""

    noun: Noun
    name: str
    spec: Mapping[str, Any]
    place: Place

    @property
    def label(self) -> str:
        return f"{self.noun.value}/{self.name}"


Desired: TypeAlias = DesiredTopic | DesiredSetting | Mention


def contradictions(desired: Sequence[Desired]) -> Iterator[str]:
    """What is wanted twice."""
    seen: dict[str, Place] = {}
    # Metrics do not tell '.' from '_' in a topic's name, so no two may differ by that alone.
    similar: dict[str, DesiredTopic] = {}
    configured: dict[str, Place] = {}
    for each in desired:
        first = seen.setdefault(each.label, each.place)
        if first is not each.place:
            yield f"{each.place}: {each.label} is there twice, first in {first}"
        elif isinstance(each, DesiredTopic):
            other = similar.setdefault(each.name.replace(".", "_"), each)
            if other is not each:
                yield f"{each.place}: {each.label} and {other.label} differ by '.' and '_' alone, and only one can be"
            if each.config is not None:
                configured[each.name] = each.place
    for each in desired:
        if isinstance(each, DesiredSetting) and each.owner.kind is ConfigKind.TOPIC and each.owner.name in configured:
            place = configured[each.owner.name]
            yield f"{each.place}: {each.label} is for topic/{each.owner.name} to say, which has a `config` in {place}"
