"""`lograft config set|unset`: change the configuration of topics, brokers and the cluster."""

from collections.abc import Mapping, Sequence

import click

from lograft.cli.common.cluster_options import Settings, changing_command, open_admin, run_async
from lograft.cli.common.completion_values import complete_types
from lograft.cli.common.nouns import Noun
from lograft.cli.resources.change_report import ChangeReport
from lograft.cli.resources.config_resources import Owner, parse_owner
from lograft.cli.resources.manifest_writer import declared_setting


@click.group()
def config() -> None:
    """Set or unset configuration keys of topics, brokers, or the cluster. Cluster values are defaults for all topics.

    Changes take effect immediately, without a restart. `lograft get configs topic/orders` lists the effective values
    and their sources.
    """


@config.command("set")
@click.argument(
    "whose",
    metavar="topic/NAME|broker/ID|cluster",
    shell_complete=complete_types(Noun.TOPIC, Noun.BROKER, also=["cluster"]),
)
@click.argument("changes", metavar="KEY=VALUE...", nargs=-1, required=True)
@click.option("--dry-run", is_flag=True, help="Validate the change without making it.")
@changing_command
def set_command(settings: Settings, whose: str, changes: Sequence[str], dry_run: bool) -> None:
    """Set one or more configuration keys. If one key is rejected, none is set.

    \b
    Examples:
      # Set two keys of a topic
      lograft config set topic/orders retention.ms=60000 segment.ms=10000
      # Set the default of all topics
      lograft config set cluster min.insync.replicas=2
      # Change the log level of a broker
      lograft config set broker/1 log.level=debug
    """
    run_async(_change(settings, parse_owner(whose), _values(changes), dry_run=dry_run))


@config.command("unset")
@click.argument(
    "whose",
    metavar="topic/NAME|broker/ID|cluster",
    shell_complete=complete_types(Noun.TOPIC, Noun.BROKER, also=["cluster"]),
)
@click.argument("keys", metavar="KEY...", nargs=-1, required=True)
@click.option("--dry-run", is_flag=True, help="Validate the change without making it.")
@changing_command
def unset_command(settings: Settings, whose: str, keys: Sequence[str], dry_run: bool) -> None:
    """Unset one or more configuration keys. The cluster's value applies again, or else the default.

    \b
    Examples:
      # Use the cluster's retention for a topic again
      lograft config unset topic/orders retention.ms
    """
    for key in keys:
        if "=" in key:
            raise click.UsageError(f"{key!r} has a value: pass the key alone, or use `lograft config set`")
    run_async(_change(settings, parse_owner(whose), dict.fromkeys(keys), dry_run=dry_run))


def _values(changes: Sequence[str]) -> dict[str, str]:
    values: dict[str, str] = {}
    for change in changes:
        key, separator, value = change.partition("=")
        key = key.strip()
        if not separator or not key:
            raise click.UsageError(f"{change!r} is not KEY=VALUE, such as retention.ms=86400000")
        if key in values:
            raise click.UsageError(f"{key} is set twice: pass it once")
        values[key] = value.strip()
    return values


async def _change(settings: Settings, owner: Owner, changes: Mapping[str, str | None], *, dry_run: bool) -> None:
    report = ChangeReport(settings)
    async with open_admin(settings) as admin:
        changed = await admin.alter_config(owner.kind, owner.name, changes, validate_only=dry_run)
        report.note(f"{owner} {'would be configured' if dry_run else 'configured'}")
        for key, value in changes.items():
            planned = declared_setting(owner, key, changed.get(key, value)) if dry_run else None
            report.tell(Noun.CONFIG, f"{owner}/{key}", planned=planned)
        await report.finish(admin)
