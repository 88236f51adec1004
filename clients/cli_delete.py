"""`lograft delete topic NAME...`, `lograft delete group NAME...` and `lograft delete broker ID`."""

import sys
from collections.abc import Sequence

import click

from lograft.clients.cli import CommandError
from lograft.clients.cli_create import report
from lograft.clients.cli_nouns import Noun, check_names, parse_id, parse_nouns
from lograft.clients.cli_options import Settings, cluster_command, open_admin, run_async


@click.command("delete")
@click.argument("words", metavar="NOUN NAME...", nargs=-1, required=True)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@cluster_command
def delete(settings: Settings, words: Sequence[str], yes: bool) -> None:
    """Delete topics with all their records, groups with what they have committed, or forget brokers that are stopped
    and empty.

    \b
    lograft delete topic orders --yes
    lograft delete group billing --yes
    lograft delete broker 4 --yes
    """
    noun, names = parse_nouns(words, [Noun.TOPIC, Noun.GROUP, Noun.BROKER])
    if not names:
        raise click.UsageError(f"which? `lograft delete {noun.value} NAME`")
    check_names(noun, names)
    confirm(f"Delete {noun.value} {', '.join(names)}?", is_given=yes)
    if noun is not Noun.BROKER:
        results = run_async(_delete(settings, noun, names))
        report([(f"{noun.value}/{name}", result) for name, result in zip(names, results, strict=True)], "deleted")
    else:
        run_async(_forget_brokers(settings, [parse_id(name) for name in names]))


def confirm(question: str, *, is_given: bool) -> None:
    """Ask on a terminal; a script has to say `--yes`."""
    if is_given:
        return
    if not sys.stdin.isatty():
        raise CommandError("nobody is there to confirm it", "say --yes")
    if not click.confirm(question, err=True):
        raise click.Abort


async def _delete(settings: Settings, noun: Noun, names: Sequence[str]) -> Sequence[object]:
    async with open_admin(settings) as admin:
        return await (admin.delete_groups(names) if noun is Noun.GROUP else admin.delete_topics(names))


async def _forget_brokers(settings: Settings, broker_ids: Sequence[int]) -> None:
    async with open_admin(settings) as admin:
        for broker_id in broker_ids:
            await admin.unregister_broker(broker_id)
            click.echo(f"broker/{broker_id} deleted")
