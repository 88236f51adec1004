"""Results as a picture: a panel for each workload, a bar for each contender, and a whisker from least to most."""

from itertools import groupby
from pathlib import Path
from typing import Any

from compare.results import Results
from compare.spread import HIGHER_IS_BETTER, Line, lines_of
from compare.table import TITLES, number

PANELS = (
    "produce, 100 B", "produce, 1 KiB", "latency, p50", "latency, p99", "consume, 100 B", "consume, 1 KiB",
    "Spark, count", "Spark, sum of lengths", "failover", "start-up", "memory, after load", "processor, servers",
)  # fmt: skip
COLOURS = {"lograft": "#1b6ca8", "Kafka": "#8c8c8c", "NATS JetStream": "#b08d57", "Redis Streams": "#c25b56"}
_COLUMNS = 2
_BAR_INCHES, _PANEL_INCHES = 0.27, 0.85


def draw(results: Results, path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    by_workload = _panels(results)
    pairs = [by_workload[start : start + _COLUMNS] for start in range(0, len(by_workload), _COLUMNS)]
    heights = [max(len(lines) for _, lines in pair) * _BAR_INCHES + _PANEL_INCHES for pair in pairs]
    figure, grid = plt.subplots(
        len(pairs), _COLUMNS, figsize=(15, sum(heights)), squeeze=False, gridspec_kw={"height_ratios": heights}
    )
    for row, pair in zip(grid, pairs, strict=True):
        for axes in row[len(pair) :]:
            axes.set_visible(False)
        for axes, (workload, lines) in zip(row, pair, strict=False):
            _draw_panel(axes, workload, lines)
    figure.tight_layout()
    figure.savefig(path, dpi=90)
    plt.close(figure)


def _panels(results: Results) -> list[tuple[str, list[Line]]]:
    ordered = sorted(lines_of(results.samples), key=lambda line: list(TITLES).index(line.workload))
    found = {workload: list(lines) for workload, lines in groupby(ordered, key=lambda line: line.workload)}
    return [(workload, found[workload]) for workload in PANELS if workload in found]


def _draw_panel(axes: Any, workload: str, lines: list[Line]) -> None:
    spreads = [line.spread for line in lines]
    places = range(len(lines))
    middles = [spread.middle for spread in spreads]
    whiskers = [
        [spread.middle - spread.least for spread in spreads],
        [spread.most - spread.middle for spread in spreads],
    ]
    # What is acknowledged from memory is paler than what is on disks.
    bars = axes.barh(places, middles, xerr=whiskers, color=[COLOURS.get(line.system, "#555555") for line in lines],
                     error_kw={"ecolor": "#333333", "capsize": 2, "elinewidth": 0.8})  # fmt: skip
    for bar, line in zip(bars, lines, strict=True):
        bar.set_alpha(0.55 if line.durability == "os" else 1.0)
    most = max(spread.most for spread in spreads)
    for place, spread in zip(places, spreads, strict=True):
        axes.text(spread.most + most * 0.015, place, number(spread.middle), va="center", fontsize=8)
    axes.set_yticks(list(places), [_label(line) for line in lines], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlim(0, most * 1.15)
    axes.tick_params(axis="x", labelsize=8)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}" if value >= 10 or value == 0 else f"{value:g}")
    better = "more is better" if HIGHER_IS_BETTER[lines[0].unit] else "less is better"
    axes.set_title(f"{TITLES[workload]} ({lines[0].unit}, {better})", fontsize=9.5, loc="left")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _label(line: Line) -> str:
    durability = {"fsync": ", fsync", "os": ", page cache", "": ""}[line.durability]
    return f"{line.name}{durability}"
