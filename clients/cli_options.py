"""What the commands that talk to a cluster have in common: their flags, and how their errors are told."""

import functools
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from lograft.clients.cli import CommandError
from lograft.clients.cli_times import BadTime, parse_duration
from lograft.clients.errors import LograftError

if TYPE_CHECKING:
    from lograft.clients.aio_admin import Admin

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_BOOTSTRAP = "localhost:9092"
DEFAULT_TIMEOUT = "30s"

# Whoever has no cluster running should not wait long to hear it; whoever knows better says --timeout.
_FIRST_CONTACT_MS = 5000
_LONGEST_MS = 10 * 86_400_000
_FLAGS = ("bootstrap", "timeout", "output", "no_headers")
FORMATS = ("table", "wide", "json", "yaml", "name")


def read_duration(text: str) -> int:
    """Milliseconds, more than none."""
    try:
        duration_ms = parse_duration(text)
    except BadTime as error:
        raise click.BadParameter(str(error)) from None
    if duration_ms <= 0:
        raise click.BadParameter(f"{text!r} is no time at all: give {DEFAULT_TIMEOUT} or the like")
    return min(duration_ms, _LONGEST_MS)


@dataclass(frozen=True, slots=True)
class Settings:
    """What the common flags say. `first_contact_ms`: how long to look for a cluster that nobody has seen yet."""

    bootstrap: str
    timeout_ms: int
    first_contact_ms: int | None = None
    output: str = "table"
    has_titles: bool = True

    @property
    def patience_ms(self) -> int | None:
        """How long to wait for what may take hours: for ever, unless --timeout says otherwise."""
        return self.timeout_ms if self.first_contact_ms is None else None


def cluster_command(command: F) -> F:
    """Give a command `--bootstrap` and `--timeout`, and a first argument `settings: Settings`."""
    return _with_settings(_cluster_flags(command))


def showing_command(command: F) -> F:
    """The same, and `-o` and `--no-headers`."""
    with_titles = click.option("--no-headers", is_flag=True, help="Leave the titles of a table out.")
    with_output = click.option("-o", "--output", type=click.Choice(FORMATS), default=None, help="How to show it.")
    return _with_settings(with_output(with_titles(_cluster_flags(command))))


def _cluster_flags(command: F) -> F:
    timeout = click.option(
        "--timeout", default=None, metavar="DURATION", help=f"How long to try.  [default: {DEFAULT_TIMEOUT}]"
    )
    bootstrap = click.option(
        "--bootstrap",
        default=None,
        metavar="HOST:PORT,...",
        help=f"Some brokers of the cluster.  [env: LOGRAFT_BOOTSTRAP; default: {DEFAULT_BOOTSTRAP}]",
    )
    return bootstrap(timeout(command))


def _with_settings(command: F) -> F:
    @functools.wraps(command)
    def run(*arguments: Any, **named: Any) -> Any:
        flags: dict[str, Any] = {name: named.pop(name) for name in _FLAGS if name in named}
        common: dict[str, Any] = click.get_current_context().find_root().params

        def chosen(name: str, default: Any) -> Any:
            """A flag after the verb counts more than one before it."""
            return next((value for value in (flags.get(name), common.get(name)) if value not in (None, False)), default)

        output = chosen("output", "table")
        if output not in FORMATS:
            raise click.UsageError(f"{output!r} is not a format: give {', '.join(FORMATS)}")
        settings = Settings(
            bootstrap=chosen("bootstrap", DEFAULT_BOOTSTRAP),
            timeout_ms=read_duration(chosen("timeout", DEFAULT_TIMEOUT)),
            first_contact_ms=_FIRST_CONTACT_MS if chosen("timeout", None) is None else None,
            output=output,
            has_titles=not chosen("no_headers", False),
        )
        try:
            return command(settings, *arguments, **named)
        except LograftError as error:
            raise explain(error, settings) from error

    return run  # type: ignore[return-value]


def open_admin(settings: Settings) -> "Admin":
    from lograft.clients.aio_admin import Admin

    return Admin(settings.bootstrap, timeout_ms=settings.timeout_ms, first_contact_ms=settings.first_contact_ms)


def run_async(coroutine: Coroutine[Any, Any, T]) -> T:
    import asyncio

    return asyncio.run(coroutine)


_REMEDIES = {
    "NO_BROKER_AVAILABLE": "start a cluster with `lograft dev up`, or say with --bootstrap where it is",
    "UNKNOWN_TOPIC": "`lograft get topics` shows those there are; `lograft create topic NAME` makes one",
    "TOPIC_ALREADY_EXISTS": "choose another name, or look at it with `lograft describe topic NAME`",
    "UNKNOWN_PARTITION": "`lograft get partitions TOPIC` shows those there are",
    "NOT_ENOUGH_BROKERS": "ask for fewer --replicas, or start more brokers; `lograft get brokers` shows who is there",
    "UNKNOWN_BROKER": "`lograft get brokers` shows who is there",
    "INVALID_ARGUMENT": "`--help` says what can be given",
    "OFFSET_OUT_OF_RANGE": "`lograft get partitions TOPIC -o wide` shows which offsets there are",
    "INVALID_CONFIG": "`lograft describe config topic/NAME` (or broker/ID, or cluster) shows the keys there are",
    "BROKER_IN_USE": "`lograft drain broker ID` moves its replicas to others; then stop it",
    "INVALID_QUORUM_CHANGE": "`lograft describe quorum` shows its members",
    "GROUP_NOT_FOUND": "`lograft get groups` shows those there are",
    "GROUP_NOT_EMPTY": "`lograft describe group NAME` shows its members: stop them, and try again",
    "CORRUPT_BATCH": "pass over it with `lograft consume TOPIC --offsets PARTITION:START-`",
}


def explain(error: LograftError, settings: Settings) -> CommandError:
    """What went wrong, and what can be done about it."""
    remedy = _REMEDIES.get(error.code)
    if remedy is None and error.outcome_unknown:
        remedy = "it may have been done: look before you repeat it"
    if remedy is None and error.retriable:
        remedy = f"try again, with a --timeout of more than {settings.timeout_ms / 1000:g}s perhaps"
    return CommandError(error.message, remedy or "change what the message names, and try again")
