"""`lograft export ...`: what there is, in files that can be applied or imported again."""

import click

from lograft.cli.common.lazy_group import LazyCommand, LazyGroup
from lograft.cli.common.nouns import names_like


class _Nouns(LazyGroup):
    """Its commands are nouns: by any of their names, and as TYPE/NAME, too."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word, separator, name = args[0].partition("/")
        known = next((each for each in self.list_commands(ctx) if word.lower() in names_like(each)), None)
        if known is None:
            return super().resolve_command(ctx, args)
        others = [_without_type(each, known) for each in args[1:]] if separator else args[1:]
        return super().resolve_command(ctx, [known, *([name] if separator else []), *others])


def _without_type(word: str, noun: str) -> str:
    kind, separator, name = word.partition("/")
    return name if separator and kind.lower() in names_like(noun) else word


@click.group(
    "export",
    cls=_Nouns,
    lazy_commands={
        "topics": LazyCommand(
            "lograft.cli.declarative.export_topics:export_topics", "Write topics as `lograft apply` takes them."
        ),
        "groups": LazyCommand(
            "lograft.cli.declarative.export_groups:export_groups",
            "Write how far groups are, for `lograft import group`.",
        ),
    },
)
def export() -> None:
    """Write what there is in a form that can be read back.

    \b
    lograft export topics > topics.yaml
    lograft export group billing > billing.yaml
    """
