"""Compare resource files with a cluster: plan a change for each resource, or a refusal. Pure."""

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
"""Configuration keys with their new values; None unsets a key."""


@dataclass(frozen=True, slots=True)
class TopicCreation:
    """A topic to create. The cluster chooses values that are None."""

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
    """A change of an existing topic. `moves`: reassignments for a new number of `replicas`. `settings`: changes of its
    own configuration."""

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
    """A change of one configuration key. `settings`: the key, if its value changes."""

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
    """A read-only resource in a file, with its current state."""

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
    """A rejected resource: the cause and the remedy."""

    cause: str
    remedy: str


def plan_changes(
    desired: Sequence[DesiredTopic | DesiredSetting],
    cluster: ClusterDescription,
    under_way: Sequence[Reassignment],
    configs: Mapping[Owner, Mapping[str, str]],
    full: Collection[int] = (),
) -> tuple[list[Change], list[Refusal]]:
    """Return the changes in order, and all refusals. If there is any refusal, no change may be made.

    `cluster` has all topics, internal ones included. `configs`: the current values of single settings' owners.
    `full`: the brokers whose disks are full.
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
    """Plan a change, still without moves. Raise `CannotPlan` if it is unsafe."""
    if live is None:
        return TopicCreation(desired, desired.partitions, desired.replicas)
    if desired.id is not None and desired.id != live.id:
        raise CannotPlan(
            f"{desired.label} was recreated: its id is {live.id}, but the file has {desired.id}",
            "to change the current topic, remove metadata.id from the file",
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
            f"{desired.label} is internal and must keep its {present} partitions: it cannot have {partitions}",
            f"set partitions: {present}, or omit the field",
        )
    if live.is_internal and replicas != live.replication_factor:
        raise CannotPlan(
            f"{desired.label} is internal: a file cannot change its replicas",
            f"set replicas: {live.replication_factor}, or omit the field{_on_purpose(live, replicas)}",
        )
    if partitions < present:
        raise CannotPlan(
            f"{desired.label} has {present} partitions, and a reduction to {partitions} would delete records",
            f"set partitions: {present} or more, or create another topic with {partitions} and copy the records",
        )


def _on_purpose(live: TopicDescription, replicas: int) -> str:
    """Name the command that adds replicas to an internal topic. They decrease only as brokers are removed."""
    if replicas < live.replication_factor:
        return ""
    return f"; to change it deliberately, run `lograft scale topic {live.name} --replicas {replicas}`"


def _check_min_isr(change: TopicChange) -> None:
    """Raise if min.insync.replicas would exceed the planned replicas; the cluster checks it against the current ones. A
    value that is already in effect may stay."""
    wanted = (change.desired.config or {}).get(MIN_ISR, "")
    is_changed = MIN_ISR in change.settings or change.replicas != change.live.replication_factor
    if is_changed and wanted.isascii() and wanted.isdigit() and int(wanted) > change.replicas:
        raise CannotPlan(
            f"{change.desired.label} sets {MIN_ISR} to {wanted}, which exceeds its {change.replicas} replicas",
            f"set {MIN_ISR} to {change.replicas} or less, or add replicas",
        )


def _topic_settings(desired: DesiredTopic, live: TopicDescription) -> Settings:
    """Return the changes that make a topic's own configuration equal to the given one."""
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
    """Return moves by topic. Topics with the same target are planned together, so that they are spread evenly."""
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
    """Describe differences, such as `partitions 3 -> 6`, or all values of a new resource, such as `partitions 6`."""
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
