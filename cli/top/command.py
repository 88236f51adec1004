"""`lograft top`: show live cluster activity."""

import asyncio
import sys
from dataclasses import dataclass, field, replace

import click

from lograft.cli.common.best_effort import SOON_MS, ask_soon
from lograft.cli.common.cluster_options import Settings, command_flags, open_admin, read_duration, run_async
from lograft.cli.common.command_error import EXIT_TERMINATED
from lograft.cli.common.common_flags import DOCUMENTS
from lograft.cli.output.resource_output import Resource, has_colours, write_document
from lograft.cli.output.watch import run_until_interrupted
from lograft.cli.top.model import Snapshot, top_view
from lograft.cli.top.screen import Order, top_lines
from lograft.clients.admin.aio_admin import Admin
from lograft.clients.admin.model.group_types import GroupListing
from lograft.clients.errors import LograftError
from lograft.runtime.clock import Clock, LoopClock
from lograft.runtime.process.full_screen import FullScreen, full_screen

_MOST_GROUPS = 200  # groups whose lag is queried, at a call each
_CALLS_AT_ONCE = 8
_FIRST_MS = 1000  # until the first rates are shown
_LINES_ONCE = 60


@click.command("top")
@click.option(
    "--interval",
    "interval_ms",
    default="2s",
    show_default=True,
    metavar="DURATION",
    callback=lambda ctx, param, value: read_duration(value, "--interval"),
    help="Refresh interval, over which rates are computed.",
)
@click.option("--once", is_flag=True, help="Print once as text and exit.")
@click.option("--internal", is_flag=True, help="Include partitions of internal topics.")
@command_flags("table", "wide", *DOCUMENTS, has_titles=True)
def top(settings: Settings, interval_ms: int, once: bool, internal: bool) -> None:
    """Show live cluster activity: traffic, the busiest brokers and partitions, lagging groups, and problems.

    On a terminal, the view is updated until you press q or Ctrl+C; s changes the sort order of partitions. In a pipe,
    and with -o, it is printed once.

    IN and OUT are bytes per second written and read by clients, and REPL bytes per second between brokers. LOOP LAG is
    the longest time in the last ten seconds for which a broker's event loop was blocked.

    \b
    Examples:
      # Show live activity
      lograft top
      # Update every 5 seconds
      lograft top --interval 5s
      # Print one sample of the rates
      lograft top --once
      # Process the sample as JSON
      lograft top -o json | jq .status.brokers

    \b
    Exit code    0  success
                 1  the cluster is unreachable
                 2  invalid usage
               130  interrupted by Ctrl+C
    """
    if once or settings.is_document or not sys.stdout.isatty():
        view = run_async(_look_twice(settings, interval_ms, has_internal=internal))
        show_once(view, settings)
    else:
        run_until_interrupted(_look_on(settings, interval_ms, has_internal=internal))


def show_once(view: Resource, settings: Settings) -> None:
    if settings.is_document:
        write_document(sys.stdout, view, settings.output)
        return
    lines = top_lines(view, settings, Order.TRAFFIC, height=_LINES_ONCE, is_coloured=has_colours(sys.stdout))
    sys.stdout.writelines(f"{line}\n" for line in lines)


# -- looking


async def _look_twice(settings: Settings, interval_ms: int, *, has_internal: bool) -> Resource:
    clock = LoopClock()
    async with open_admin(settings) as admin:
        first = await look(admin, clock)
        await clock.sleep_ms(interval_ms)
        return top_view(first, await look(admin, clock, has_internal=has_internal))


async def look(admin: Admin, clock: Clock, *, has_internal: bool = False) -> Snapshot:
    at_ms = clock.wall_ms()
    # Show the rest even if controllers or coordinators are unavailable.
    cluster, loads, (quorum, trouble), (groups, group_trouble) = await asyncio.gather(
        admin.describe_cluster(include_internal=True),
        admin.describe_load(),
        ask_soon(admin.describe_quorum()),
        ask_soon(admin.list_groups()),
    )
    lags = await _lags(admin, groups or [])
    by_id = {load.id: load for load in loads}
    return Snapshot(at_ms, cluster, quorum, trouble, by_id, groups, lags, group_trouble, has_internal)


async def _lags(admin: Admin, groups: list[GroupListing]) -> dict[str, int | None]:
    """Return the lag of reachable groups. If there are too many groups, prefer those with members."""
    room = asyncio.Semaphore(_CALLS_AT_ONCE)

    async def lag(name: str) -> int | None:
        async with room:
            offsets, _ = await ask_soon(admin.group_offsets(name))
        if offsets is None:
            return None
        lags = [offset.lag for offset in offsets.values()]
        return None if None in lags else sum(each for each in lags if each is not None)

    asked = sorted(groups, key=lambda group: group.members == 0)[:_MOST_GROUPS]
    found = await asyncio.gather(*(lag(group.name) for group in asked))
    return dict(zip((group.name for group in asked), found, strict=True))


# -- on a terminal


@dataclass(slots=True)
class _Live:
    """The state of the live view and its keyboard commands."""

    settings: Settings
    view: Resource
    order: Order = Order.TRAFFIC
    trouble: str = ""
    is_over: bool = False
    is_terminated: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def press(self, key: str) -> None:
        match key:
            case "q" | "Q" | "\x04":
                self.is_over = True
            case "s":
                self.order = self.order.next
        self.changed.set()

    def terminate(self) -> None:
        self.is_over = self.is_terminated = True
        self.changed.set()

    def lines(self, height: int) -> list[str]:
        footer = self.trouble or "q quits   s sorts"
        lines = top_lines(self.view, self.settings, self.order, height=height - 1, is_coloured=has_colours(sys.stdout))
        return [*lines, *[""] * (height - 1 - len(lines)), footer]


async def _look_on(settings: Settings, interval_ms: int, *, has_internal: bool) -> None:
    clock = LoopClock()
    # Tell the user soon that the cluster is slow.
    async with open_admin(replace(settings, timeout_ms=min(settings.timeout_ms, SOON_MS))) as admin:
        admin.when_not_confirmed = None  # the screen lists it as a problem
        first = await look(admin, clock, has_internal=has_internal)
        live = _Live(settings, top_view(None, first))
        with full_screen(sys.stdout, on_key=live.press, on_resize=live.changed.set, on_end=live.terminate) as screen:
            async with asyncio.TaskGroup() as group:
                looking = group.create_task(_keep_looking(admin, clock, live, first, interval_ms), name="look")
                await _keep_drawing(live, screen)
                looking.cancel()
    if live.is_terminated:
        sys.exit(EXIT_TERMINATED)


async def _keep_drawing(live: _Live, screen: FullScreen) -> None:
    """Redraw on every change until the view is closed."""
    while not live.is_over:
        live.changed.clear()
        screen.draw(live.lines(screen.height))
        await live.changed.wait()


async def _keep_looking(admin: Admin, clock: Clock, live: _Live, previous: Snapshot, interval_ms: int) -> None:
    """Query the cluster periodically. If it is unavailable, keep the last view and retry."""
    wait_ms = min(interval_ms, _FIRST_MS)
    while True:
        await clock.sleep_ms(wait_ms)
        wait_ms = interval_ms
        try:
            current = await look(admin, clock, has_internal=previous.has_internal)
        except LograftError as error:
            live.trouble = f"Not updated: {error.message}"
        else:
            live.view, live.trouble = top_view(previous, current), ""
            previous = current
        live.changed.set()
