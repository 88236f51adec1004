"""Results as Markdown. Pure."""

from collections.abc import Sequence
from itertools import groupby

from compare.results import Results
from compare.spread import Line, Spread, advantage, lines_of, our_match

TITLES = {
    "produce, 100 B": "Producing, records of 100 B",
    "produce, 1 KiB": "Producing, records of 1 KiB",
    "consume, 100 B": "Consuming, records of 100 B",
    "consume, 1 KiB": "Consuming, records of 1 KiB",
    "latency, p50": "End to end, median",
    "latency, p99": "End to end, 99th percentile",
    "Spark, count": "Spark batch read, count",
    "Spark, sum of lengths": "Spark batch read, sum of lengths",
    "failover": "Pause after kill -9 of a leader",
    "start-up": "Start-up, to the first acknowledged write",
    "memory, idle": "Memory of all servers, idle",
    "memory, after load": "Memory of all servers, after the load",
    "processor, servers": "Processor time of all servers, producing 1 KiB",
    "processor, client": "Processor time of the client, producing 1 KiB",
}
SIZES = {"100 B": 100, "1 KiB": 1024}
_DURABILITY = {"fsync": "on disks", "os": "page cache", "": ""}


def number(value: float) -> str:
    """Three digits that mean something."""
    if value >= 1000:
        digits = len(str(int(value))) - 3
        return f"{round(value, -digits):,.0f}"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def range_text(spread: Spread) -> str:
    return f"{number(spread.least)} to {number(spread.most)}"


def ratio_text(spread: Spread | None) -> str:
    if spread is None:
        return "-"
    return f"{number(spread.middle)}x ({range_text(spread)})"


def megabytes_text(line: Line) -> str:
    """Of records a second, the megabytes; empty if the size of a record is not known."""
    size = next((SIZES[name] for name in SIZES if line.workload.endswith(name)), None)
    return "" if size is None or line.unit != "records/s" else number(line.spread.middle * size / 1e6)


def markdown(results: Results) -> str:
    parts = [_conditions(results)]
    lines = lines_of(results.samples)
    ordered = sorted(lines, key=lambda line: list(TITLES).index(line.workload))
    for workload, some in groupby(ordered, key=lambda line: line.workload):
        parts.append(_section(workload, list(some)))
    return "\n\n".join(parts) + "\n"


def _conditions(results: Results) -> str:
    count = len({sample.round for sample in results.samples})
    rounds = "1 round" if count == 1 else f"{count} rounds"
    lines = [f"Measured {results.began} ({results.effort}; {rounds}). {results.machine}."]
    if results.others_cores:
        busy = ", ".join(f"{cores:.1f}" for cores in results.others_cores)
        lines.append(f"Cores busy with something else just before each round: {busy}.")
    lines += [f"- {system}: {versions}" for system, versions in results.versions.items()]
    lines += [f"- Skipped: {system}: {reason}" for system, reason in results.skipped.items()]
    lines += [f"- Failed: {failure}" for failure in results.failures]
    return "\n".join(lines)


def _section(workload: str, lines: Sequence[Line]) -> str:
    """Ratios are against each of our functions, where there are several."""
    ours = list(dict.fromkeys(line.how for line in lines if line.is_ours))
    unit = lines[0].unit
    has_size = bool(megabytes_text(lines[0]))
    has_setting = any(line.setting for line in lines)
    header = [
        "",
        *(["acknowledged when"] if has_setting else []),
        unit,
        "least to most",
        *(["MB/s"] if has_size else []),
    ]
    header += [f"lograft{f' {how}' if how else ''} is better by" for how in ours]
    rows = []
    for line in lines:
        row = [f"**{line.name}**" if line.is_ours else line.name]
        if has_setting:
            row.append(f"{_DURABILITY[line.durability]}: {line.setting}")
        row += [number(line.spread.middle), range_text(line.spread)]
        row += [megabytes_text(line)] if has_size else []
        for how in ours:
            match = None if line.is_ours else our_match(line, lines, how)
            row.append("" if line.is_ours else ratio_text(advantage(match, line)) if match else "-")
        rows.append(row)
    # Numbers are aligned right; names are not.
    named = 2 if has_setting else 1
    rule = ["---"] * named + ["---:"] * (len(header) - named)
    table = "\n".join(f"| {' | '.join(row)} |" for row in [header, rule, *rows])
    return f"#### {TITLES[workload]}\n\n{table}"


BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


def put_into(page: str, measured: str) -> str:
    """The page with what is between its two marks replaced."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no {BEGIN} ... {END}")
    return f"{before}{BEGIN}\n{measured.strip()}\n{END}{after}"
