"""Apply resource files: plan and validate all changes before making any."""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NoReturn

from lograft.cli.common.cluster_options import Settings, explain
from lograft.cli.common.command_error import CommandError
from lograft.cli.declarative.apply_plan import (
    MIN_ISR,
    Change,
    Refusal,
    SettingChange,
    Sighting,
    TopicChange,
    TopicCreation,
    plan_changes,
)
from lograft.cli.declarative.desired_state import Desired, DesiredSetting, Mention
from lograft.cli.declarative.read_only_resources import sightings
from lograft.cli.operations.reassignment_run import ask, look
from lograft.cli.resources.config_resources import Owner
from lograft.clients.admin.aio_admin import Admin
from lograft.clients.admin.model.types import CreatedTopic
from lograft.clients.errors import LograftError, NoBrokerAvailable


class Refused(Exception):
    """The files were rejected, and no change was made. `refusals`: all causes."""

    def __init__(self, refusals: Iterable[Refusal]) -> None:
        self.refusals = tuple(refusals)
        super().__init__("; ".join(refusal.cause for refusal in self.refusals))

    def tell(self) -> NoReturn:
        """Report all refusals, the last one as the command's error."""
        *others, last = [CommandError(refusal.cause, refusal.remedy) for refusal in self.refusals]
        for other in others:
            other.show()
        raise last from None


async def prepare(admin: Admin, settings: Settings, desired: Sequence[Desired]) -> list[Change]:
    """Return the changes as validated by the cluster. Raise `Refused` if any is rejected."""
    refusals: list[Refusal] = []
    configs = await _configs(admin, settings, desired, refusals)
    declared = [each for each in desired if not isinstance(each, Mention)]
    wanted = [each for each in declared if not isinstance(each, DesiredSetting) or each.owner in configs]
    cluster, under_way, full = await look(admin)
    changes, unsafe = plan_changes(wanted, cluster, under_way, configs, full)
    refusals += unsafe
    checked = await _checked(admin, settings, changes, refusals)
    seen, wrong = await sightings(admin, cluster, [each for each in desired if isinstance(each, Mention)])
    refusals += wrong
    if refusals:
        raise Refused(refusals)
    by_label = {change.desired.label: change for change in (*checked, *seen)}
    return [by_label[each.label] for each in desired]


async def carry_out(admin: Admin, changes: Sequence[Change]) -> AsyncIterator[tuple[Change, LograftError | None]]:
    """Make the changes in order. Yield each with its error, if any; a failure does not prevent the others."""
    new = [change for change in changes if isinstance(change, TopicCreation)]
    created = dict(zip([change.desired.name for change in new], await _create(admin, new, dry_run=False), strict=True))
    for change in changes:
        if isinstance(change, TopicCreation):
            outcome = created[change.desired.name]
            yield change, outcome if isinstance(outcome, LograftError) else None
            continue
        if isinstance(change, Sighting):
            yield change, None
            continue
        try:
            await _change(admin, change)
        except LograftError as error:
            yield change, error
        else:
            yield change, None


async def _change(admin: Admin, change: TopicChange | SettingChange) -> None:
    if isinstance(change, SettingChange):
        await _alter(admin, change, dry_run=False)
        return
    # The new settings may require the added replicas, and must suit the remaining ones.
    if not change.adds_replicas:
        await _alter(admin, change, dry_run=False)
    await _reassign(admin, change, dry_run=False)
    # New partitions get as many replicas as the existing ones will have.
    if change.adds_partitions:
        await admin.create_partitions(change.live.name, change.partitions)
    if change.adds_replicas:
        await _alter(admin, change, dry_run=False)


# -- the single steps


async def _create(
    admin: Admin, new: Sequence[TopicCreation], *, dry_run: bool
) -> Sequence[CreatedTopic | LograftError]:
    return await admin.create_topics([change.new_topic for change in new], validate_only=dry_run) if new else []


async def _reassign(admin: Admin, change: TopicChange, *, dry_run: bool) -> None:
    errors = [error async for _, error in ask(admin, change.moves, dry_run=dry_run) if error is not None]
    if errors:
        raise errors[0]


async def _alter(
    admin: Admin, change: TopicChange | SettingChange, *, dry_run: bool, without: str | None = None
) -> Mapping[str, str | None]:
    """Return the settings that change. `without`: a key to leave out."""
    asked = {key: value for key, value in change.settings.items() if key != without}
    owner = change.owner
    return await admin.alter_config(owner.kind, owner.name, asked, validate_only=dry_run) if asked else {}


# -- checking


async def _configs(
    admin: Admin, settings: Settings, desired: Sequence[Desired], refusals: list[Refusal]
) -> dict[Owner, Mapping[str, str]]:
    """Return the current configuration of single settings' owners, as far as they exist."""
    owners = {each.owner: each for each in desired if isinstance(each, DesiredSetting)}
    configs: dict[Owner, Mapping[str, str]] = {}
    for owner, first in owners.items():
        try:
            entries = await admin.describe_config(owner.kind, owner.name)
        except LograftError as error:
            refusals.append(_refusal(error, first, settings))
        else:
            configs[owner] = {entry.key: entry.setting for entry in entries if entry.setting is not None}
    return configs


async def _checked(
    admin: Admin, settings: Settings, changes: Sequence[Change], refusals: list[Refusal]
) -> list[Change]:
    """Validate the changes on the cluster, and return them with the values it would use."""
    new = [change for change in changes if isinstance(change, TopicCreation)]
    created = dict(zip([change.desired.name for change in new], await _create(admin, new, dry_run=True), strict=True))
    checked: list[Change] = []
    for change in changes:
        try:
            if isinstance(change, TopicCreation):
                checked.append(_as_created(change, created[change.desired.name]))
            elif not isinstance(change, Sighting):
                checked.append(await _rehearse(admin, change))
        except LograftError as error:
            refusals.append(_refusal(error, change.desired, settings))
    return checked


def _as_created(change: TopicCreation, outcome: CreatedTopic | LograftError) -> TopicCreation:
    if isinstance(outcome, LograftError):
        raise outcome
    return replace(change, partitions=outcome.partitions, replicas=outcome.replicas)


async def _rehearse(admin: Admin, change: TopicChange | SettingChange) -> TopicChange | SettingChange:
    # The cluster would reject a minimum that only the replicas still to be added allow.
    later = MIN_ISR if isinstance(change, TopicChange) and change.adds_replicas else None
    settings = dict(await _alter(admin, change, dry_run=True, without=later))
    if later is not None and later in change.settings:
        settings[later] = change.settings[later]
    if isinstance(change, TopicChange):
        await _reassign(admin, change, dry_run=True)
        if change.adds_partitions:
            await admin.create_partitions(change.live.name, change.partitions, validate_only=True)
    return replace(change, settings=settings)


def _refusal(error: LograftError, desired: Desired, settings: Settings) -> Refusal:
    """Turn the cluster's rejection into a refusal. Raise errors of connections as they are."""
    if error.outcome_unknown or isinstance(error, NoBrokerAvailable):
        raise error
    return Refusal(f"{desired.place}: {desired.label}: {error.message}", explain(error, settings).remedy)
