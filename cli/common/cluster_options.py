"""Flags of the commands that connect to a cluster, and the remedies for errors of a cluster."""

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

# Report a missing cluster soon, unless --timeout says how long to wait.
_FIRST_CONTACT_MS = 5000
_LONGEST_MS = 10 * 86_400_000
_TELL_AFTER_MS = 2000
_ENVIRONMENT = click.core.ParameterSource.ENVIRONMENT
NOT_CONFIRMED = "Warning: no controller is reachable; this is a broker's last known metadata and may be stale."


def read_duration(text: str, flag: str) -> int:
    """Return a positive duration in milliseconds. `flag` names the option in error messages."""
    try:
        duration_ms = parse_duration(text)
    except BadTime as error:
        raise click.BadParameter(str(error), param_hint=repr(flag)) from None
    if duration_ms <= 0:
        raise click.BadParameter(f"{text!r} is not a positive duration: use a value such as 5s", param_hint=repr(flag))
    return min(duration_ms, _LONGEST_MS)


@dataclass(frozen=True, slots=True)
class Settings:
    """Values of the common flags. `first_contact_ms`: how long to look for a cluster before the first connection.
    `context`: the context that `bootstrap` comes from, if any. `is_watching`: -w."""

    bootstrap: str
    timeout_ms: int
    first_contact_ms: int | None = None
    output: str = "table"
    has_titles: bool = True
    context: str | None = None
    is_watching: bool = False

    @property
    def cluster(self) -> str:
        """Describe the cluster, for users who are about to change it."""
        name = f" (context {self.context})" if self.context is not None else ""
        return f"the cluster at {self.bootstrap}{name}"

    @property
    def is_table(self) -> bool:
        """Whether the output is for people."""
        return self.output in ("table", "wide")

    @property
    def is_document(self) -> bool:
        """Whether the output is a whole resource, or a template's selection from it."""
        return self.output in ("json", "yaml") or self.output.startswith(JSONPATH)

    @property
    def patience_ms(self) -> int | None:
        """How long to wait for operations that may take hours: without limit, unless --timeout is set."""
        return self.timeout_ms if self.first_contact_ms is None else None


def command_flags(
    *formats: str,
    default_format: str = "table",
    has_titles: bool = False,
    can_watch: bool = False,
    asks_cluster: bool = True,
) -> Callable[[F], F]:
    """Add the applicable common flags to a command, and pass their values as a first argument `settings: Settings`. The
    command rejects the other common flags: see `common_flags`.

    `formats`: the values that `-o` accepts. `has_titles`: the command prints a table, so --no-headers applies.
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
"""The same with `-o`, of all formats, and `--no-headers`."""

watching_command = command_flags(*FORMATS, has_titles=True, can_watch=True)
"""The same with `-w`."""

changing_command = command_flags(*FORMATS)
"""Prints a line for each changed resource, unless `-o` says otherwise: see `ChangeReport`."""


def _output_flag(formats: Sequence[str], default: str) -> Callable[[F], F]:
    return click.option(
        "-o",
        "--output",
        cls=CommonFlag,
        default=None,
        metavar="FORMAT",
        shell_complete=complete_choices(*(each.removesuffix("TEMPLATE") for each in formats)),
        callback=lambda ctx, parameter, output: default if output is None else check_format(output, formats),
        help=f"Output format: {', '.join(formats)}.",
    )


_titles_flag = click.option("--no-headers", cls=CommonFlag, is_flag=True, help="Omit the headers of tables.")
_watch_flag = click.option(
    "-w",
    "--watch",
    cls=CommonFlag,
    is_flag=True,
    help="After listing, watch for changes until interrupted.",
)
_timeout_flag = click.option(
    "--timeout",
    cls=CommonFlag,
    default=None,
    metavar="DURATION",
    help=f"Maximum time to wait, such as 500ms, 5s, 10m.  [default: {DEFAULT_TIMEOUT}]",
)
_bootstrap_flag = click.option(
    "--bootstrap",
    cls=CommonFlag,
    default=None,
    metavar="HOST:PORT,...",
    help=f"Addresses of one or more brokers.  [env: LOGRAFT_BOOTSTRAP; default: the context's, or {DEFAULT_BOOTSTRAP}]",
)
_context_flag = click.option(
    "--context",
    cls=CommonFlag,
    default=None,
    metavar="NAME",
    shell_complete=complete_names(Noun.CONTEXT),
    help="Name of the context to use.  [env: LOGRAFT_CONTEXT; default: the current context]",
)


def _with_settings(command: F, names: Sequence[str], *, asks_cluster: bool) -> F:
    """Wrap `command` so that the flags in `names` arrive as `Settings`."""

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
        # Commands that contact no cluster need not pay for this import.
        from lograft.clients.errors import LograftError

        try:
            return command(settings, *arguments, **named)
        except LograftError as error:
            raise explain(error, settings) from error

    return run  # type: ignore[return-value]


def find_cluster(ctx: click.Context) -> tuple[str | None, str]:
    """Return the context's name, if one applies, and the bootstrap addresses. The first that is set wins: --bootstrap,
    --context, LOGRAFT_BOOTSTRAP, LOGRAFT_CONTEXT, the current context, the default.

    Flags override variables, so that a command never reaches another cluster than the one it names. Raise
    `CommandError` if the named context does not exist.
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
        return None, DEFAULT_BOOTSTRAP  # saves most users the import of YAML
    contexts = load_contexts()
    current = contexts.current
    return current, DEFAULT_BOOTSTRAP if current is None else find_bootstrap(contexts, current)


def _find_context(name: str) -> str:
    from lograft.cli.common.context_file import find_bootstrap, load_contexts

    return find_bootstrap(load_contexts(), name)


def _check_bootstrap(ctx: click.Context, bootstrap: str, where: str) -> None:
    """Raise a usage error for malformed addresses."""
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
    """Open a client without group methods, which are slow to import."""
    from lograft.clients.admin.cluster_admin import ClusterAdmin

    return _told_of(ClusterAdmin(**_options_of(settings)), settings)


def _options_of(settings: Settings) -> dict[str, Any]:
    return {
        "bootstrap": settings.bootstrap,
        "timeout_ms": settings.timeout_ms,
        "first_contact_ms": settings.first_contact_ms,
    }


def _told_of(admin: A, settings: Settings) -> A:
    """Report retries and unconfirmed answers to the user."""
    admin.when_refused_for_now = _Waiting(settings)
    admin.when_not_confirmed = _Doubt()
    return admin


class _Waiting:
    """Reports once, after a while, what the command waits for."""

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
    """Warns once that the answer may be stale."""

    def __init__(self) -> None:
        self._is_told = False

    def __call__(self) -> None:
        if not self._is_told:
            self._is_told = True
            click.echo(NOT_CONFIRMED, err=True)


_runner: "asyncio.Runner | None" = None


def run_async(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine. All coroutines of a command share one loop, because gRPC logs events that arrive for a closed
    loop."""
    import asyncio

    global _runner
    if _runner is None:
        _runner = asyncio.Runner()
        atexit.register(_runner.close)
    return _runner.run(coroutine)


_LOOKING = ("consume", "describe", "diff", "explain", "export", "get", "health", "offsets", "top", "verify", "wait")
_REMEDIES = {
    "NO_BROKER_AVAILABLE": "start a cluster with `lograft dev up`, or pass its address with --bootstrap",
    "UNKNOWN_TOPIC": "list topics with `lograft get topics`, or create one with `lograft create topic NAME`",
    "TOPIC_ALREADY_EXISTS": "choose another name, or inspect the existing topic with `lograft describe topic NAME`",
    "UNKNOWN_PARTITION": "list partitions with `lograft get partitions TOPIC`",
    "NOT_ENOUGH_BROKERS": "pass a lower --replicas, or start more brokers; list brokers with `lograft get brokers`",
    "DISK_FULL": "free space on that disk; `lograft get brokers -o wide` shows free space",
    "UNKNOWN_BROKER": "list brokers with `lograft get brokers`",
    "INVALID_ARGUMENT": "see `--help` for accepted values",
    "OFFSET_OUT_OF_RANGE": "show available offsets with `lograft get partitions TOPIC -o wide`",
    "INVALID_CONFIG": "list keys with `lograft describe config topic/NAME` (or broker/ID, or cluster)",
    "BROKER_IN_USE": "move its replicas with `lograft drain broker ID`, then stop it",
    "INVALID_QUORUM_CHANGE": "list members with `lograft describe quorum`",
    "QUORUM_CHANGE_NOT_NOW": "check voters and their lag with `lograft describe quorum`, then retry",
    "GROUP_NOT_FOUND": "list groups with `lograft get groups`",
    "GROUP_NOT_EMPTY": "list members with `lograft describe group NAME`, stop them, then retry",
    "COMMIT_FAILED": "run the same command to continue; the last records may be printed again",
    "CORRUPT_BATCH": "skip it with `lograft consume TOPIC --offsets PARTITION:START-`",
}


def _is_looking() -> bool:
    """Whether the command is read-only, so that a failure cannot leave a change behind."""
    ctx = click.get_current_context(silent=True)
    while ctx is not None and ctx.parent is not None and ctx.parent.parent is not None:
        ctx = ctx.parent
    return ctx is not None and ctx.info_name in _LOOKING


def explain(error: "LograftError", settings: Settings) -> CommandError:
    """Turn a client error into a command error with a remedy."""
    remedy = _REMEDIES.get(error.code)
    if error.code == "NO_BROKER_AVAILABLE" and settings.context is not None:
        remedy = f"start that cluster, or select another context than {settings.context!r} with `lograft context use`"
    if remedy is None and error.retriable and _is_looking():
        remedy = "find the cause with `lograft health`, or retry with a longer --timeout"
    if remedy is None and error.outcome_unknown:
        remedy = "the change may have been made: check before you retry"
    if remedy is None and error.retriable:
        remedy = f"retry, or pass a --timeout longer than {settings.timeout_ms / 1000:g}s"
    return CommandError(error.message, remedy or "correct what the message names, then retry")
