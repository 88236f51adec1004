"""`lograft top`: what the cluster is doing, as it does it."""

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

_MOST_GROUPS = 200  # that are asked for their lag: each is a call
_CALLS_AT_ONCE = 8
_FIRST_MS = 1000  # until the first rates, which nobody should wait longer for
_LINES_ONCE = 60


@click.command("top")
@click.option(
    "--interval",
    "interval_ms",
    default="2s",
    show_default=True,
    metavar="DURATION",
    callback=lambda ctx, param, value: read_duration(value, "--interval"),
    help="How often to look; rates are over that time.",
)
@click.option("--once", is_flag=True, help="Show it once, as text, and end.")
@command_flags("table", "wide", *DOCUMENTS, has_titles=True)
def top(settings: Settings, interval_ms: int, once: bool) -> None:
    """Show what the cluster is doing: traffic, busy brokers and partitions, groups that are behind, and what is wrong.

    \b
    lograft top
    lograft top --interval 5s
    lograft top --once                 two looks, and their rates, for a script or a report
    lograft top -o json | jq .status.brokers

    On a terminal it goes on until q is pressed, or Ctrl+C; s sorts the partitions by something else. In a pipe, and
    with -o, it is shown once.

    IN and OUT are what clients store and read, REPL what brokers send one another; all in bytes a second, of a thousand
    each. LOOP LAG is the longest that a broker was kept from its work in the last ten seconds.

    Exit codes: 0 shown; 1 the cluster cannot be asked; 2 wrong usage; 130 ended by Ctrl+C.
    """
    if once or settings.is_document or not sys.stdout.isatty():
        view = run_async(_look_twice(settings, interval_ms))
        show_once(view, settings)
    else:
        run_until_interrupted(_look_on(settings, interval_ms))


def show_once(view: Resource, settings: Settings) -> None:
    if settings.is_document:
        write_document(sys.stdout, view, settings.output)
        return
    lines = top_lines(view, settings, Order.TRAFFIC, height=_LINES_ONCE, is_coloured=has_colours(sys.stdout))
    sys.stdout.writelines(f"{line}\n" for line in lines)


# -- looking


async def _look_twice(settings: Settings, interval_ms: int) -> Resource:
    clock = LoopClock()
    async with open_admin(settings) as admin:
        first = await look(admin, clock)
        await clock.sleep_ms(interval_ms)
        return top_view(first, await look(admin, clock))


async def look(admin: Admin, clock: Clock) -> Snapshot:
    at_ms = clock.wall_ms()
    # Above all when controllers or coordinators are away, people want to see the rest.
    cluster, loads, (quorum, trouble), (groups, group_trouble) = await asyncio.gather(
        admin.describe_cluster(include_internal=True),
        admin.describe_load(),
        ask_soon(admin.describe_quorum()),
        ask_soon(admin.list_groups()),
    )
    lags = await _lags(admin, groups or [])
    by_id = {load.id: load for load in loads}
    return Snapshot(at_ms, cluster, quorum, trouble, by_id, groups, lags, group_trouble)


async def _lags(admin: Admin, groups: list[GroupListing]) -> dict[str, int | None]:
    """Of those that can be asked; of very many groups, of those that have members first."""
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
    """What is shown, and what was asked for at the keyboard."""

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


async def _look_on(settings: Settings, interval_ms: int) -> None:
    clock = LoopClock()
    # Who looks at it should not have to wait long to hear that it is the cluster that is slow.
    async with open_admin(replace(settings, timeout_ms=min(settings.timeout_ms, SOON_MS))) as admin:
        admin.when_not_confirmed = None  # the problems on the screen tell it
        first = await look(admin, clock)
        live = _Live(settings, top_view(None, first))
        with full_screen(sys.stdout, on_key=live.press, on_resize=live.changed.set, on_end=live.terminate) as screen:
            async with asyncio.TaskGroup() as group:
                looking = group.create_task(_keep_looking(admin, clock, live, first, interval_ms), name="look")
                await _keep_drawing(live, screen)
                looking.cancel()
    if live.is_terminated:
        sys.exit(EXIT_TERMINATED)


async def _keep_drawing(live: _Live, screen: FullScreen) -> None:
    """Whenever there is something new, until it is over."""
    while not live.is_over:
        live.changed.clear()
        screen.draw(live.lines(screen.height))
        await live.changed.wait()


async def _keep_looking(admin: Admin, clock: Clock, live: _Live, previous: Snapshot, interval_ms: int) -> None:
    """A cluster that is away for a while is waited for, and what was seen last stays."""
    wait_ms = min(interval_ms, _FIRST_MS)
    while True:
        await clock.sleep_ms(wait_ms)
        wait_ms = interval_ms
        try:
            current = await look(admin, clock)
        except LograftError as error:
            live.trouble = f"As it was before: {error.message}"
        else:
            live.view, live.trouble = top_view(previous, current), ""
            previous = current
        live.changed.set()
