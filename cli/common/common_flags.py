"""Common flags. They mean the same before and after the verb. A command rejects, in either place, those that do not
apply to it."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import click
from click.core import ParameterSource

FORMATS = ("table", "wide", "json", "yaml", "name", "jsonpath=TEMPLATE")
DOCUMENTS = ("json", "yaml", "jsonpath=TEMPLATE")
JSONPATH = "jsonpath="


class _Meaning(NamedTuple):
    """How a flag is written, and why it may not apply to a command. `{}` stands for the command."""

    names: tuple[str, ...]
    is_switch: bool
    why_not: str


COMMON: Mapping[str, _Meaning] = {
    "bootstrap": _Meaning(("--bootstrap",), False, "`{}` does not contact a cluster"),
    "context": _Meaning(("--context",), False, "`{}` does not contact a cluster"),
    "timeout": _Meaning(("--timeout",), False, "`{}` does not contact a cluster"),
    "output": _Meaning(("-o", "--output"), False, "`{}` has only one output format"),
    "no_headers": _Meaning(("--no-headers",), True, "`{}` prints no table"),
    "watch": _Meaning(("-w", "--watch"), True, "only `lograft get` and `lograft reassign status` support it"),
}


class CommonFlag(click.Option):
    """A common flag of a command. Without a value after the verb, it takes the value before it, or a variable's."""

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
    """A flag that must be typed: environment variables do not apply."""

    heeded = (ParameterSource.COMMANDLINE,)


class _RefusedFlag(TypedFlag):
    """A flag that does not apply to its command."""

    def __init__(self, meaning: _Meaning) -> None:
        super().__init__(meaning.names, is_flag=meaning.is_switch, hidden=True, expose_value=False)
        self._why_not = meaning.why_not

    def consume_value(self, ctx: click.Context, opts: Mapping[str, Any]) -> tuple[Any, ParameterSource]:
        value, source = super().consume_value(ctx, opts)
        if source is ParameterSource.COMMANDLINE and not ctx.resilient_parsing:
            raise click.UsageError(f"{self.opts[0]} does not apply: {self._why_not.format(ctx.command_path)}")
        return value, source


class _DebugFlag(click.Option):
    """`--debug` after the verb, where users add it once a command has failed."""

    def __init__(self) -> None:
        super().__init__(["--debug"], is_flag=True, hidden=True, expose_value=False, callback=self._heed)

    @staticmethod
    def _heed(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
        if value:
            ctx.find_root().params["debug"] = True


def refuse_others(command: click.Command) -> None:
    """Make a command and its subcommands reject the common flags that they do not have, and accept --debug."""
    if isinstance(command, click.Group):
        for each in command.commands.values():
            refuse_others(each)
        return
    known = {name for parameter in command.params for name in parameter.opts}
    command.params += [_RefusedFlag(each) for each in COMMON.values() if known.isdisjoint(each.names)]
    if "--debug" not in known:
        command.params.append(_DebugFlag())


def check_format(output: str, formats: Sequence[str]) -> str:
    """Return `output` if it is one of these formats, or `jsonpath=` and a valid template. Raise `UsageError` if not."""
    kind = FORMATS[-1] if output.startswith(JSONPATH) else output
    if kind not in FORMATS or output == FORMATS[-1]:
        raise click.UsageError(f"{output!r} is not an output format: use {', '.join(formats)}")
    if kind not in formats:
        raise click.UsageError(f"-o {output} is not supported here: use {', '.join(formats)}")
    if kind != output:
        from lograft.cli.common.jsonpath_parser import BadTemplate, parse_template

        try:
            parse_template(output.removeprefix(JSONPATH))
        except BadTemplate as error:
            raise click.UsageError(f"-o jsonpath: {error}") from None
    return output
