"""Lay out `lograft top` as lines that fit a terminal. Pure."""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

from lograft.cli.common.cluster_options import Settings
from lograft.cli.common.units import size_text
from lograft.cli.output.resource_output import Column, Resource, cell_text, table_lines
from lograft.cli.top.model import busy
from lograft.clients.times import iso_time

_LEAST_ROWS = 2
"""The minimum number of rows of a table that has them."""


class Order(Enum):
    """The sort order of partitions."""

    TRAFFIC = "traffic"
    IN = "in"
    OUT = "out"
    NAME = "name"

    @property
    def next(self) -> "Order":
        every = list(Order)
        return every[(every.index(self) + 1) % len(every)]


_KEYS: dict[Order, Callable[[Resource], Any]] = {
    Order.TRAFFIC: lambda each: -busy(each),
    Order.IN: lambda each: -each["bytesInPerSecond"],
    Order.OUT: lambda each: -each["bytesOutPerSecond"],
    Order.NAME: lambda each: (each["topic"], each["partition"]),
}


def rate_text(count: float | None) -> str | None:
    """Format a rate, with one more digit if it is low."""
    return None if count is None else f"{count:,.0f}" if count >= 10 or count == int(count) else f"{count:.1f}"


def _bytes(name: str) -> Callable[[Resource], Any]:
    return lambda each: size_text(each[name])


def _count(name: str) -> Callable[[Resource], Any]:
    return lambda each: rate_text(each[name])


def _growth(each: Resource) -> str | None:
    growth = each["lagGrowthPerSecond"]
    return None if growth is None else f"{growth:+,.0f}"


BROKER_COLUMNS = (
    Column("BROKER", lambda each: each["id"], is_number=True),
    Column(
        "STATE",
        lambda each: each["state"] if each["answers"] or each["state"] != "active" else "silent",
        is_bad=lambda each: each["state"] != "active" or not each["answers"],
    ),
    Column("LEADERS", lambda each: each["leaders"], is_number=True),
    Column("REPLICAS", lambda each: each["replicas"], is_number=True),
    Column("REQUESTS/S", _count("requestsPerSecond"), is_number=True),
    Column("ERRORS/S", _count("errorsPerSecond"), is_number=True, is_bad=lambda each: each["errorsPerSecond"]),
    Column("IN/S", _bytes("bytesInPerSecond"), is_number=True),
    Column("OUT/S", _bytes("bytesOutPerSecond"), is_number=True),
    Column("REPL IN/S", _bytes("replicatedBytesInPerSecond"), is_number=True),
    Column("REPL OUT/S", _bytes("replicatedBytesOutPerSecond"), is_number=True),
    Column("LOOP LAG MS", _count("eventLoopLagMs"), is_number=True),
    Column("STREAMS", lambda each: each["streams"], is_number=True),
)
PARTITION_COLUMNS = (
    Column("PARTITION", lambda each: f"{each['topic']}-{each['partition']}"),
    Column("LEADER", lambda each: each["leader"], is_number=True, is_bad=lambda each: each["leader"] is None),
    Column("ISR", lambda each: each["isr"], is_bad=lambda each: len(each["isr"]) < len(each["replicas"])),
    Column("IN/S", _bytes("bytesInPerSecond"), is_number=True),
    Column("RECORDS IN/S", _count("recordsInPerSecond"), is_number=True),
    Column("OUT/S", _bytes("bytesOutPerSecond"), is_number=True),
    Column("RECORDS OUT/S", _count("recordsOutPerSecond"), is_number=True),
)
GROUP_COLUMNS = (
    Column("GROUP", lambda each: each["name"]),
    Column("STATE", lambda each: each["state"]),
    Column("MEMBERS", lambda each: each["members"], is_number=True),
    Column("LAG", _count("lag"), is_number=True),
    Column("LAG GROWTH/S", _growth, is_number=True, is_bad=lambda each: (each["lagGrowthPerSecond"] or 0) > 0),
)


def top_lines(
    view: Resource, settings: Settings, order: Order, *, height: int | None, is_coloured: bool = False
) -> list[str]:
    """Return at most `height` lines (None: no limit), without line ends."""
    status = view["status"]
    problems = [f"! {problem}" for problem in status["problems"]]
    head = _head(view, order)
    partitions = sorted(status["partitions"], key=_KEYS[order])
    tables = [
        ("", status["brokers"], BROKER_COLUMNS),
        ("no partitions with traffic", partitions, PARTITION_COLUMNS),
        (
            "groups are not available" if status["groups"] is None else "no groups",
            status["groups"] or [],
            GROUP_COLUMNS,
        ),
    ]
    if height is not None:
        # Each table takes a blank line and a header.
        room = height - len(head) - 2 * len(tables)
        allotted = allot([len(problems), *(len(rows) for _, rows, _ in tables)], room)
    else:
        allotted = [len(problems), *(len(rows) for _, rows, _ in tables)]
    lines = [*head, *_cut(problems, allotted[0])]
    for (none, rows, columns), count in zip(tables, allotted[1:], strict=True):
        lines.append("")
        if rows:
            made = table_lines(rows[:count], columns, settings, is_coloured=is_coloured)
            lines += [line.rstrip("\n") for line in made]
        else:
            lines.append(f"({none})" if none else "")
    return lines if height is None else lines[:height]


def _head(view: Resource, order: Order) -> list[str]:
    status = view["status"]
    active = sum(broker["state"] == "active" for broker in status["brokers"])
    quorum = status["quorum"]
    leader = cell_text(quorum["leader"])
    problems = len(status["problems"])
    health = "healthy" if not problems else f"{problems} problem{'' if problems == 1 else 's'}"
    return [
        f"cluster {view['metadata']['name']}  {iso_time(status['at'])}  {health}  partitions by {order.value}",
        f"brokers {active} of {len(status['brokers'])} active   topics {status['topics']}   "
        f"quorum led by {leader}, term {cell_text(quorum['term'])}, commit {cell_text(quorum['commitIndex'])}",
        f"in {_rate(status, 'In')}   out {_rate(status, 'Out')}   "
        f"replicated {cell_text(size_text(status['replicatedBytesInPerSecond']))}/s   "
        f"requests {cell_text(rate_text(status['requestsPerSecond']))}/s, "
        f"errors {cell_text(rate_text(status['errorsPerSecond']))}/s",
    ]


def _rate(status: Resource, way: str) -> str:
    size = cell_text(size_text(status[f"bytes{way}PerSecond"]))
    return f"{size}/s, {cell_text(rate_text(status[f'records{way}PerSecond']))} records/s"


def allot(wanted: Sequence[int], room: int) -> list[int]:
    """Distribute lines: each table gets what it wants, or an equal share of the rest."""
    given = [min(each, _LEAST_ROWS) for each in wanted]
    left = room - sum(given)
    while left > 0:
        hungry = [at for at, each in enumerate(wanted) if given[at] < each]
        if not hungry:
            break
        for at in hungry[:left]:
            given[at] += 1
        left -= min(left, len(hungry))
    return given


def _cut(lines: Sequence[str], count: int) -> list[str]:
    if len(lines) <= count or count < 1:
        return list(lines[:count])
    return [*lines[: count - 1], f"! ... and {len(lines) - count + 1} more: run `lograft health`"]
