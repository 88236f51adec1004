"""What the commands that talk to a cluster have in common: their flags, and how their errors are told."""

import atexit
import functools
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from lograft.cli.common.command_error import CommandError
from lograft.cli.common.common_flags import FORMATS, JSONPATH, CommonFlag, check_format
from lograft.cli.common.completion_values import complete_choices, complete_names
from lograft.cli.common.nouns import Noun
from lograft.clients.times import BadTime, parse_duration

if TYPE_CHECKING:
    import asyncio

    from lograft.clients.admin.aio_admin import Admin
    from lograft.clients.admin.cluster_admin import ClusterAdmin
    from lograft.clients.admin.retrying_calls import AdminCalls
    from lograft.clients.errors import LograftError

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
A = TypeVar("A", bound="AdminCalls")

DEFAULT_BOOTSTRAP = "localhost:9092"
DEFAULT_TIMEOUT = "30s"

# Whoever has no cluster running should not wait long to hear it; whoever knows better says --timeout.
_FIRST_CONTACT_MS = 5000
_LONGEST_MS = 10 * 86_400_000
_TELL_AFTER_MS = 2000
_ENVIRONMENT = click.core.ParameterSource.ENVIRONMENT
NOT_CONFIRMED = "No controller can be asked: this is what a broker knew last, and may not be so any more."


def read_duration(text: str, flag: str) -> int:
    """Milliseconds, more than none. `flag`: whose value it is."""
    try:
        duration_ms = parse_duration(text)
    except BadTime as error:
        raise click.BadParameter(str(error), param_hint=repr(flag)) from None
    if duration_ms <= 0:
        raise click.BadParameter(f"{text!r} is no time at all: give 5s or the like", param_hint=repr(flag))
    return min(duration_ms, _LONGEST_MS)


@dataclass(frozen=True, slots=True)
class Settings:
    """What the common flags say. `first_contact_ms`: how long to look for a cluster that nobody has seen yet.
    `context`: whose bootstrap it is, if any's. `is_watching`: -w."""

    bootstrap: str
    timeout_ms: int
    first_contact_ms: int | None = None
    output: str = "table"
    has_titles: bool = True
    context: str | None = None
    is_watching: bool = False

    @property
    def cluster(self) -> str:
        """Which one it is, for people who are about to change it."""
        name = f" (context {self.context})" if self.context is not None else ""
        return f"the cluster at {self.bootstrap}{name}"

    @property
    def is_table(self) -> bool:
        """For people."""
        return self.output in ("table", "wide")

    @property
    def is_document(self) -> bool:
        """A resource as a whole, or what a template takes of it."""
        return self.output in ("json", "yaml") or self.output.startswith(JSONPATH)

    @property
    def patience_ms(self) -> int | None:
        """How long to wait for what may take hours: for ever, unless --timeout says otherwise."""
        return self.timeout_ms if self.first_contact_ms is None else None


def command_flags(
    *formats: str,
    default_format: str = "table",
    has_titles: bool = False,
    can_watch: bool = False,
    asks_cluster: bool = True,
) -> Callable[[F], F]:
    """Give a command the common flags that it has a use for, and a first argument `settings: Settings` of what they
    say. It refuses the others: see `common_flags`.

    `formats`: those that `-o` can be. `has_titles`: there is a table whose titles --no-headers can leave out.
    """

    def decorate(command: F) -> F:
        flags: dict[str, Callable[[F], F]] = {}
        if can_watch:
            flags["watch"] = _watch_flag
        if formats:
            flags["output"] = _output_flag(formats, default_format)
        if has_titles:
            flags["no_headers"] = _titles_flag
        if asks_cluster:
            flags |= {"bootstrap": _bootstrap_flag, "context": _context_flag, "timeout": _timeout_flag}
        decorated = _with_settings(command, list(flags), asks_cluster=asks_cluster)
        for flag in reversed(flags.values()):
            decorated = flag(decorated)
        return decorated

    return decorate


cluster_command = command_flags()
"""`--bootstrap`, `--context` and `--timeout`."""

showing_command = command_flags(*FORMATS, has_titles=True)
"""And `-o`, of all formats, and `--no-headers`."""

watching_command = command_flags(*FORMATS, has_titles=True, can_watch=True)
"""And `-w`."""

changing_command = command_flags(*FORMATS)
"""A line for each resource that is changed, unless `-o` says otherwise: see `report`."""


def _output_flag(formats: Sequence[str], default: str) -> Callable[[F], F]:
    return click.option(
        "-o",
        "--output",
        cls=CommonFlag,
        default=None,
        metavar="FORMAT",
        shell_complete=complete_choices(*(each.removesuffix("TEMPLATE") for each in formats)),
        callback=lambda ctx, parameter, output: default if output is None else check_format(output, formats),
        help=f"How to show it: {', '.join(formats)}.",
    )


_titles_flag = click.option("--no-headers", cls=CommonFlag, is_flag=True, help="Leave the titles of a table out.")
_watch_flag = click.option(
    "-w",
    "--watch",
    cls=CommonFlag,
    is_flag=True,
    help="Go on, and show it again whenever it has changed, until Ctrl+C.",
)
_timeout_flag = click.option(
    "--timeout",
    cls=CommonFlag,
    default=None,
    metavar="DURATION",
    help=f"How long to try.  [default: {DEFAULT_TIMEOUT}]",
)
_bootstrap_flag = click.option(
    "--bootstrap",
    cls=CommonFlag,
    default=None,
    metavar="HOST:PORT,...",
    help=f"Some brokers of the cluster.  [env: LOGRAFT_BOOTSTRAP; default: the context's, or {DEFAULT_BOOTSTRAP}]",
)
_context_flag = click.option(
    "--context",
    cls=CommonFlag,
    default=None,
    metavar="NAME",
    shell_complete=complete_names(Noun.CONTEXT),
    help="Which cluster, by its name in `lograft context list`.  [env: LOGRAFT_CONTEXT; default: the current one]",
)


def _with_settings(command: F, names: Sequence[str], *, asks_cluster: bool) -> F:
    """`names`: of the flags that it has."""

    @functools.wraps(command)
    def run(*arguments: Any, **named: Any) -> Any:
        flags: dict[str, Any] = {name: named.pop(name) for name in names}
        name, bootstrap = find_cluster(click.get_current_context()) if asks_cluster else (None, "")
        timeout = flags.get("timeout")
        settings = Settings(
            bootstrap=bootstrap,
            timeout_ms=read_duration(DEFAULT_TIMEOUT if timeout is None else timeout, "--timeout"),
            first_contact_ms=_FIRST_CONTACT_MS if timeout is None else None,
            output=flags.get("output", "table"),
            has_titles=not flags.get("no_headers", False),
            context=name,
            is_watching=flags.get("watch", False),
        )
        if not asks_cluster:
            return command(settings, *arguments, **named)
        # Whoever asks nobody need not wait for what this imports.
        from lograft.clients.errors import LograftError

        try:
            return command(settings, *arguments, **named)
        except LograftError as error:
            raise explain(error, settings) from error

    return run  # type: ignore[return-value]


def find_cluster(ctx: click.Context) -> tuple[str | None, str]:
    """The context's name, if it is one's, and where the cluster is, as flags and variables say: --bootstrap, else
    --context, else LOGRAFT_BOOTSTRAP, else LOGRAFT_CONTEXT, else the current context, else the default.

    What is typed counts more than what is set for all commands, or a command would reach another cluster than the one
    it names. A context that is named is there, or that is the error.
    """
    name, bootstrap = ctx.params.get("context"), ctx.params.get("bootstrap")
    is_name_typed = ctx.get_parameter_source("context") is not _ENVIRONMENT
    is_bootstrap_typed = ctx.get_parameter_source("bootstrap") is not _ENVIRONMENT
    if bootstrap is not None and (name is None or is_bootstrap_typed or not is_name_typed):
        _check_bootstrap(ctx, bootstrap, "--bootstrap" if is_bootstrap_typed else "LOGRAFT_BOOTSTRAP")
        if name is not None and is_name_typed:
            _find_context(name)
        return None, bootstrap
    if name is not None:
        return name, _find_context(name)
    from lograft.cli.common.context_file import contexts_path, find_bootstrap, load_contexts

    if not contexts_path().exists():
        return None, DEFAULT_BOOTSTRAP  # most people have none, and need not wait for YAML
    contexts = load_contexts()
    current = contexts.current
    return current, DEFAULT_BOOTSTRAP if current is None else find_bootstrap(contexts, current)


def _find_context(name: str) -> str:
    from lograft.cli.common.context_file import find_bootstrap, load_contexts

    return find_bootstrap(load_contexts(), name)


def _check_bootstrap(ctx: click.Context, bootstrap: str, where: str) -> None:
    """What can be no address is wrong usage, and no cluster's refusal."""
    from lograft.clients.cluster.bootstrap import parse_bootstrap
    from lograft.clients.errors import InvalidArgument

    try:
        parse_bootstrap(bootstrap)
    except InvalidArgument as error:
        raise click.BadParameter(error.message, ctx, param_hint=repr(where)) from None


def open_admin(settings: Settings) -> "Admin":
    from lograft.clients.admin.aio_admin import Admin

    return _told_of(Admin(**_options_of(settings)), settings)


def open_cluster_admin(settings: Settings) -> "ClusterAdmin":
    """Without what is for groups, which takes long to import."""
    from lograft.clients.admin.cluster_admin import ClusterAdmin

    return _told_of(ClusterAdmin(**_options_of(settings)), settings)


def _options_of(settings: Settings) -> dict[str, Any]:
    return {
        "bootstrap": settings.bootstrap,
        "timeout_ms": settings.timeout_ms,
        "first_contact_ms": settings.first_contact_ms,
    }


def _told_of(admin: A, settings: Settings) -> A:
    """People want to know what it meets with."""
    admin.when_refused_for_now = _Waiting(settings)
    admin.when_not_confirmed = _Doubt()
    return admin


class _Waiting:
    """Says what is waited for, once, to whoever has waited for a while."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._since_ms: float | None = None
        self._is_told = False

    def __call__(self, error: "LograftError") -> None:
        from lograft.runtime.clock import LoopClock

        now_ms = LoopClock().monotonic_ms()
        self._since_ms = now_ms if self._since_ms is None else self._since_ms
        if not self._is_told and now_ms - self._since_ms >= _TELL_AFTER_MS:
            self._is_told = True
            limit = f"{self._settings.timeout_ms / 1000:g}s"
            click.echo(f"Waiting, for up to {limit} (--timeout): {error.message}", err=True)


class _Doubt:
    """Says once that what is shown may be old."""

    def __init__(self) -> None:
        self._is_told = False

    def __call__(self) -> None:
        if not self._is_told:
            self._is_told = True
            click.echo(NOT_CONFIRMED, err=True)


_runner: "asyncio.Runner | None" = None


def run_async(coroutine: Coroutine[Any, Any, T]) -> T:
    """What it returns or raises. All of a command's run on one loop: gRPC would report of a closed one what it still
    gets for it."""
    import asyncio

    global _runner
    if _runner is None:
        _runner = asyncio.Runner()
        atexit.register(_runner.close)
    return _runner.run(coroutine)


_LOOKING = ("consume", "describe", "diff", "explain", "export", "get", "health", "offsets", "top", "verify", "wait")
_REMEDIES = {
    "NO_BROKER_AVAILABLE": "start a cluster with `lograft dev up`, or say with --bootstrap where it is",
    "UNKNOWN_TOPIC": "`lograft get topics` shows those there are; `lograft create topic NAME` makes one",
    "TOPIC_ALREADY_EXISTS": "choose another name, or look at it with `lograft describe topic NAME`",
    "UNKNOWN_PARTITION": "`lograft get partitions TOPIC` shows those there are",
    "NOT_ENOUGH_BROKERS": "ask for fewer --replicas, or start more brokers; `lograft get brokers` shows who is there",
    "DISK_FULL": "make room on that disk; `lograft get brokers -o wide` shows what each has left",
    "UNKNOWN_BROKER": "`lograft get brokers` shows who is there",
    "INVALID_ARGUMENT": "`--help` says what can be given",
    "OFFSET_OUT_OF_RANGE": "`lograft get partitions TOPIC -o wide` shows which offsets there are",
    "INVALID_CONFIG": "`lograft describe config topic/NAME` (or broker/ID, or cluster) shows the keys there are",
    "BROKER_IN_USE": "`lograft drain broker ID` moves its replicas to others; then stop it",
    "INVALID_QUORUM_CHANGE": "`lograft describe quorum` shows its members",
    "QUORUM_CHANGE_NOT_NOW": "`lograft describe quorum` shows who votes, and how far each is; then try again",
    "GROUP_NOT_FOUND": "`lograft get groups` shows those there are",
    "GROUP_NOT_EMPTY": "`lograft describe group NAME` shows its members: stop them, and try again",
    "COMMIT_FAILED": "what was written last may come again: run the same command to go on",
    "CORRUPT_BATCH": "pass over it with `lograft consume TOPIC --offsets PARTITION:START-`",
}


def _is_looking() -> bool:
    """Whether the command changes nothing, so that nothing can have been done."""
    ctx = click.get_current_context(silent=True)
    while ctx is not None and ctx.parent is not None and ctx.parent.parent is not None:
        ctx = ctx.parent
    return ctx is not None and ctx.info_name in _LOOKING


def explain(error: "LograftError", settings: Settings) -> CommandError:
    """What went wrong, and what can be done about it."""
    remedy = _REMEDIES.get(error.code)
    if error.code == "NO_BROKER_AVAILABLE" and settings.context is not None:
        remedy = f"see that it runs; or `lograft context use` another one than {settings.context!r}, which says so"
    if remedy is None and error.retriable and _is_looking():
        remedy = "`lograft health` tells what is the matter; or try again, with a longer --timeout"
    if remedy is None and error.outcome_unknown:
        remedy = "it may have been done: look before you repeat it"
    if remedy is None and error.retriable:
        remedy = f"try again, with a --timeout of more than {settings.timeout_ms / 1000:g}s perhaps"
    return CommandError(error.message, remedy or "change what the message names, and try again")
