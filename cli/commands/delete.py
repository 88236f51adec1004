"""`lograft delete topic|group|broker NAME...`: delete resources."""

from collections.abc import Sequence

import click

from lograft.cli.common.cluster_options import Settings, command_flags, open_admin, run_async
from lograft.cli.common.completion_values import complete_words
from lograft.cli.common.nouns import Noun, check_names, parse_id, parse_nouns
from lograft.cli.common.prompts import check_may_ask, confirm
from lograft.cli.common.units import count_text, size_text
from lograft.cli.resources.change_report import ChangeReport, raise_first
from lograft.clients.admin.aio_admin import Admin
from lograft.clients.errors import LograftError

_NOUNS = (Noun.TOPIC, Noun.GROUP, Noun.BROKER)


@click.command("delete")
@click.argument("words", metavar="NOUN NAME...", nargs=-1, required=True, shell_complete=complete_words(*_NOUNS))
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@command_flags("name")
def delete(settings: Settings, words: Sequence[str], yes: bool) -> None:
    """Delete topics with all their records, groups with their committed offsets, or unregister brokers that are stopped
    and host no replicas.

    The command asks for confirmation. Scripts must pass --yes.

    \b
    Examples:
      # Delete a topic and its records
      lograft delete topic orders
      # Delete a group without confirmation
      lograft delete group billing --yes
      # Unregister a stopped, drained broker
      lograft delete broker 4 --yes

    \b
    Exit code  0  success
               1  a resource does not exist or cannot be deleted, or you declined
    """
    noun, names = parse_nouns(words, _NOUNS)
    if not names:
        raise click.UsageError(f"name required: `lograft delete {noun.value} NAME`")
    check_names(noun, names)
    check_may_ask(is_given=yes)
    if not yes:
        what = run_async(_what_is_lost(settings, noun, names))
        confirm(f"Delete {what}", settings, is_given=False)
    run_async(_delete(settings, noun, names))


async def _what_is_lost(settings: Settings, noun: Noun, names: Sequence[str]) -> str:
    """Describe what would be deleted, for the confirmation. Raise if a resource does not exist."""
    if noun is Noun.BROKER:
        return f"broker {', '.join(names)}"
    async with open_admin(settings) as admin:
        if noun is Noun.GROUP:
            return ", ".join([await _described_group(admin, name) for name in names])
        topics = (await admin.describe_cluster(names)).topics
        leaders = [replica for replica in await admin.describe_replicas(names) if replica.is_leader]
    told = []
    for topic in topics:
        size = sum(leader.size_bytes for leader in leaders if leader.partition.topic == topic.name)
        told.append(f"topic {topic.name} ({count_text(len(topic.partitions), 'partition')}, {size_text(size)})")
    return ", ".join(told)


async def _described_group(admin: Admin, name: str) -> str:
    await admin.describe_group(name)
    return f"group {name} (offsets of {count_text(len(await admin.group_offsets(name)), 'partition')})"


async def _delete(settings: Settings, noun: Noun, names: Sequence[str]) -> None:
    report = ChangeReport(settings)
    failures: list[LograftError] = []
    async with open_admin(settings) as admin:
        if noun is Noun.BROKER:
            for broker_id in map(parse_id, names):
                await admin.unregister_broker(broker_id)
                report.tell(noun, str(broker_id), "deleted")
            return
        results = await (admin.delete_groups(names) if noun is Noun.GROUP else admin.delete_topics(names))
        for name, result in zip(names, results, strict=True):
            if isinstance(result, LograftError):
                failures.append(result)
            else:
                report.tell(noun, name, "deleted")
    raise_first(failures)
