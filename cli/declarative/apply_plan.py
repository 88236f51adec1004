"""What is to be done so that the cluster has what files want: a change for each resource, or why it cannot be. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from lograft.cli.declarative.desired_state import DesiredSetting, DesiredTopic, Mention
from lograft.cli.output.resource_output import Resource
from lograft.cli.resources.config_resources import Owner
from lograft.cli.resources.manifest_writer import declared_setting, declared_topic
from lograft.clients.admin.model.types import ClusterDescription, ConfigKind, NewTopic, Reassignment, TopicDescription
from lograft.clients.admin.planning.reassignment_plan import CannotPlan, Move, plan_replicas

MIN_ISR = "min.insync.replicas"

Settings: TypeAlias = Mapping[str, str | None]
"""Keys of a configuration, and what they are to be; None: not set."""


@dataclass(frozen=True, slots=True)
class TopicCreation:
    """A topic that there is none of yet. What is None is up to the cluster."""

    desired: DesiredTopic
    partitions: int | None
    replicas: int | None

    verdict = "created"

    @property
    def before(self) -> Resource | None:
        return None

    @property
    def after(self) -> Resource:
        return declared_topic(
            self.desired.name, self.partitions or 0, self.replicas or 0, dict(self.desired.config or {})
        )

    @property
    def new_topic(self) -> NewTopic:
        return NewTopic(self.desired.name, self.partitions, self.replicas, self.desired.config or {})


@dataclass(frozen=True, slots=True)
class TopicChange:
    """A topic that is there, and what it is to become. `moves`: of its partitions, if it is to have other `replicas`.
    `settings`: keys of its own to be changed."""

    desired: DesiredTopic
    live: TopicDescription
    partitions: int
    replicas: int
    moves: tuple[Move, ...] = ()
    settings: Settings = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        return "configured" if self.settings or self.moves or self.adds_partitions else "unchanged"

    @property
    def before(self) -> Resource | None:
        live = self.live
        return declared_topic(live.name, len(live.partitions), live.replication_factor, live.config)

    @property
    def after(self) -> Resource:
        return declared_topic(self.live.name, self.partitions, self.replicas, _with(self.live.config, self.settings))

    @property
    def owner(self) -> Owner:
        return Owner(ConfigKind.TOPIC, self.live.name)

    @property
    def adds_partitions(self) -> bool:
        return self.partitions > len(self.live.partitions)

    @property
    def adds_replicas(self) -> bool:
        return self.replicas > self.live.replication_factor


@dataclass(frozen=True, slots=True)
class SettingChange:
    """One key of a configuration. `settings`: that key, if it is to be changed."""

    desired: DesiredSetting
    live: str | None
    settings: Settings

    @property
    def verdict(self) -> str:
        return "configured" if self.settings else "unchanged"

    @property
    def owner(self) -> Owner:
        return self.desired.owner

    @property
    def before(self) -> Resource | None:
        return declared_setting(self.owner, self.desired.key, self.live)

    @property
    def after(self) -> Resource:
        return declared_setting(self.owner, self.desired.key, self.settings.get(self.desired.key, self.live))


@dataclass(frozen=True, slots=True)
class Sighting:
    """What a file mentions, and cannot change: as it is there."""

    desired: Mention
    live: Resource

    verdict = "unchanged"

    @property
    def before(self) -> Resource | None:
        return self.live

    @property
    def after(self) -> Resource:
        return self.live


Change: TypeAlias = TopicCreation | TopicChange | SettingChange | Sighting


@dataclass(frozen=True, slots=True)
class Refusal:
    """What is wished for cannot be: why, and what can be done about it."""

    cause: str
    remedy: str


def plan_changes(
    desired: Sequence[DesiredTopic | DesiredSetting],
    cluster: ClusterDescription,
    under_way: Sequence[Reassignment],
    configs: Mapping[Owner, Mapping[str, str]],
    full: Collection[int] = (),
) -> tuple[list[Change], list[Refusal]]:
    """What is to be done about each, in order; and all that cannot be, without which the rest is not to be done either.

    `cluster` has all topics, internal ones included. `configs`: what is set on the owners of single settings.
    `full`: the brokers whose disks are.
    """
    topics = {topic.name: topic for topic in cluster.topics}
    changes: list[Change] = []
    refusals: list[Refusal] = []
    for each in desired:
        try:
            if isinstance(each, DesiredSetting):
                changes.append(_setting_change(each, configs[each.owner]))
            else:
                changes.append(_topic_change(each, topics.get(each.name)))
        except CannotPlan as refused:
            refusals.append(Refusal(f"{each.place}: {refused.cause}", refused.remedy))
    moves, unmovable = _plan_moves(changes, cluster, under_way, full)
    return [_with_moves(change, moves) for change in changes], refusals + unmovable


# -- single ones


def _topic_change(desired: DesiredTopic, live: TopicDescription | None) -> TopicCreation | TopicChange:
    """Without moves yet. `CannotPlan` for what is not safe."""
    if live is None:
        return TopicCreation(desired, desired.partitions, desired.replicas)
    if desired.id is not None and desired.id != live.id:
        raise CannotPlan(
            f"{desired.label} is another topic now: its id is {live.id}, and the file means the one of {desired.id}",
            "if the topic that is there now is meant, take metadata.id out of the file",
        )
    partitions = desired.partitions if desired.partitions is not None else len(live.partitions)
    replicas = desired.replicas if desired.replicas is not None else live.replication_factor
    _check_shape(desired, live, partitions, replicas)
    change = TopicChange(desired, live, partitions, replicas, settings=_topic_settings(desired, live))
    _check_min_isr(change)
    return change


def _check_shape(desired: DesiredTopic, live: TopicDescription, partitions: int, replicas: int) -> None:
    present = len(live.partitions)
    if live.is_internal and partitions != present:
        raise CannotPlan(
            f"{desired.label} is the cluster's own, which needs its {present} partitions: it cannot have {partitions}",
            f"say partitions: {present}, or leave them out",
        )
    if live.is_internal and replicas != live.replication_factor:
        raise CannotPlan(
            f"{desired.label} is the cluster's own: its replicas are not changed by a file",
            f"say replicas: {live.replication_factor}, or leave them out{_on_purpose(live, replicas)}",
        )
    if partitions < present:
        raise CannotPlan(
            f"{desired.label} has {present} partitions and cannot lose any: {partitions} would take records with them",
            f"say partitions: {present} or more, or have another topic with {partitions}, and copy what is to be kept",
        )


def _on_purpose(live: TopicDescription, replicas: int) -> str:
    """How an internal topic gets more replicas; fewer, only as brokers are taken out of service."""
    if replicas < live.replication_factor:
        return ""
    return f"; on purpose it is done with `lograft scale topic {live.name} --replicas {replicas}`"


def _check_min_isr(change: TopicChange) -> None:
    """Not more than the replicas there are to be, which the cluster compares with those there are now. What is so
    already may stay."""
    wanted = (change.desired.config or {}).get(MIN_ISR, "")
    is_changed = MIN_ISR in change.settings or change.replicas != change.live.replication_factor
    if is_changed and wanted.isascii() and wanted.isdigit() and int(wanted) > change.replicas:
        raise CannotPlan(
            f"{change.desired.label} is to have {change.replicas} replicas, and {MIN_ISR} {wanted}, which is more",
            f"say {MIN_ISR}: {change.replicas} or less, or more replicas",
        )


def _topic_settings(desired: DesiredTopic, live: TopicDescription) -> Settings:
    """A config that is given is all that is to be set."""
    if desired.config is None:
        return {}
    gone = dict.fromkeys(key for key in live.config if key not in desired.config)
    return {key: value for key, value in desired.config.items() if live.config.get(key) != value} | gone


def _setting_change(desired: DesiredSetting, config: Mapping[str, str]) -> SettingChange:
    live = config.get(desired.key)
    return SettingChange(desired, live, {} if live == desired.value else {desired.key: desired.value})


# -- replicas


def _plan_moves(
    changes: Sequence[Change],
    cluster: ClusterDescription,
    under_way: Sequence[Reassignment],
    full: Collection[int],
) -> tuple[dict[str, list[Move]], list[Refusal]]:
    """By topic. Those that are to have the same number are planned together, so that they are spread together."""
    wanted: dict[int, list[str]] = {}
    for change in changes:
        if isinstance(change, TopicChange) and change.replicas != change.live.replication_factor:
            wanted.setdefault(change.replicas, []).append(change.live.name)
    moves: dict[str, list[Move]] = {}
    refusals: list[Refusal] = []
    for replicas, names in wanted.items():
        try:
            for move in plan_replicas(cluster, under_way, names, replicas, full=full):
                moves.setdefault(move.partition.topic, []).append(move)
        except CannotPlan as refused:
            refusals.append(Refusal(refused.cause, refused.remedy))
    return moves, refusals


def _with_moves(change: Change, moves: Mapping[str, Sequence[Move]]) -> Change:
    if not isinstance(change, TopicChange) or change.live.name not in moves:
        return change
    return replace(change, moves=tuple(moves[change.live.name]))


# -- what it comes to


def differences(change: Change) -> list[str]:
    """What would be another, in words: `partitions 3 -> 6`; of what is new, all: `partitions 6`."""
    after = _flat(change.after)
    if change.before is None:
        return [f"{name} {_shown(value)}" for name, value in after.items()]
    before = _flat(change.before)
    names = [*after, *(name for name in before if name not in after)]
    return [
        f"{name} {_shown(before.get(name))} -> {_shown(after.get(name))}"
        for name in names
        if before.get(name) != after.get(name)
    ]


def _flat(declared: Resource) -> dict[str, object]:
    spec: dict[str, Any] = declared["spec"]
    return {name: value for name, value in spec.items() if name != "config"} | dict(spec.get("config", {}))


def _shown(value: object) -> str:
    if value is None:
        return "not set"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _with(config: Mapping[str, str], settings: Settings) -> dict[str, str]:
    return {key: value for key, value in ({**config, **settings}).items() if value is not None}
