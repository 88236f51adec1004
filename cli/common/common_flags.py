"""The flags that all commands have in common. They may stand before the verb or after it and mean the same; a command
that has no use for one refuses it, in either place."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import click
from click.core import ParameterSource

FORMATS = ("table", "wide", "json", "yaml", "name", "jsonpath=TEMPLATE")
DOCUMENTS = ("json", "yaml", "jsonpath=TEMPLATE")
JSONPATH = "jsonpath="


class _Meaning(NamedTuple):
    """How a flag is written, and why a command may have no use for it. `{}`: the command."""

    names: tuple[str, ...]
    is_switch: bool
    why_not: str


COMMON: Mapping[str, _Meaning] = {
    "bootstrap": _Meaning(("--bootstrap",), False, "`{}` asks no cluster"),
    "context": _Meaning(("--context",), False, "`{}` asks no cluster"),
    "timeout": _Meaning(("--timeout",), False, "`{}` asks no cluster"),
    "output": _Meaning(("-o", "--output"), False, "what `{}` writes has one form only"),
    "no_headers": _Meaning(("--no-headers",), True, "`{}` writes no table"),
    "watch": _Meaning(("-w", "--watch"), True, "`lograft get` has it, and `lograft reassign status`"),
}


class CommonFlag(click.Option):
    """One of them, of a command: if it is not given after the verb, it is what was given before, or by a variable."""

    heeded: tuple[ParameterSource, ...] = (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)

    def consume_value(self, ctx: click.Context, opts: Mapping[str, Any]) -> tuple[Any, ParameterSource]:
        value, source = super().consume_value(ctx, opts)
        root, name = ctx.find_root(), self.name or ""
        before = root.get_parameter_source(name)
        if source is ParameterSource.DEFAULT and before in self.heeded:
            assert before is not None
            return root.params[name], before
        return value, source


class TypedFlag(CommonFlag):
    """One that somebody has to type: a variable that is set for other commands is not meant."""

    heeded = (ParameterSource.COMMANDLINE,)


class _RefusedFlag(TypedFlag):
    """One that its command has no use for."""

    def __init__(self, meaning: _Meaning) -> None:
        super().__init__(meaning.names, is_flag=meaning.is_switch, hidden=True, expose_value=False)
        self._why_not = meaning.why_not

    def consume_value(self, ctx: click.Context, opts: Mapping[str, Any]) -> tuple[Any, ParameterSource]:
        value, source = super().consume_value(ctx, opts)
        if source is ParameterSource.COMMANDLINE and not ctx.resilient_parsing:
            raise click.UsageError(f"{self.opts[0]} makes no sense here: {self._why_not.format(ctx.command_path)}")
        return value, source


class _DebugFlag(click.Option):
    """`--debug` after the verb, where it is typed once something has gone wrong: the same as before it."""

    def __init__(self) -> None:
        super().__init__(["--debug"], is_flag=True, hidden=True, expose_value=False, callback=self._heed)

    @staticmethod
    def _heed(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
        if value:
            ctx.find_root().params["debug"] = True


def refuse_others(command: click.Command) -> None:
    """Have a command, and all that are in it, refuse the common flags that they do not have, and take --debug."""
    if isinstance(command, click.Group):
        for each in command.commands.values():
            refuse_others(each)
        return
    known = {name for parameter in command.params for name in parameter.opts}
    command.params += [_RefusedFlag(each) for each in COMMON.values() if known.isdisjoint(each.names)]
    if "--debug" not in known:
        command.params.append(_DebugFlag())


def check_format(output: str, formats: Sequence[str]) -> str:
    """One of these formats, or `jsonpath=` and a template that makes sense. `UsageError` if not."""
    kind = FORMATS[-1] if output.startswith(JSONPATH) else output
    if kind not in FORMATS or output == FORMATS[-1]:
        raise click.UsageError(f"{output!r} is not a format: give {', '.join(formats)}")
    if kind not in formats:
        raise click.UsageError(f"-o {output} makes no sense here: give {', '.join(formats)}")
    if kind != output:
        from lograft.cli.common.jsonpath_parser import BadTemplate, parse_template

        try:
            parse_template(output.removeprefix(JSONPATH))
        except BadTemplate as error:
            raise click.UsageError(f"-o jsonpath: {error}") from None
    return output
