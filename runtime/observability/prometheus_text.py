"""Metrics in Prometheus's text format, version 0.0.4. Pure.

page = Exposition()
page.add(REQUESTS, 12, "Log/Produce")
page.add_histogram(SYNCS, histogram, "/var/lib/lograft")
page.text()
"""

from dataclasses import dataclass
from enum import Enum
from math import isinf, isnan

from lograft.runtime.histogram import Histogram

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class MetricKind(Enum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Family:
    """All series of one name. `help`: a description. `labels`: the names of the labels that distinguish the series."""

    name: str
    kind: MetricKind
    help: str
    labels: tuple[str, ...] = ()


class Exposition:
    """One page of metrics. Adding a series again replaces it."""

    def __init__(self) -> None:
        self._families: dict[Family, dict[str, str]] = {}  # lines by series

    def add(self, family: Family, value: float, *labels: str) -> None:
        """Add a series. `labels`: the values of the family's labels, in the same order."""
        assert family.kind is not MetricKind.HISTOGRAM
        self._put(family, family.name, _labels(family.labels, labels), value)

    def add_histogram(self, family: Family, histogram: Histogram, *labels: str) -> None:
        assert family.kind is MetricKind.HISTOGRAM
        own, count = _labels(family.labels, labels), 0
        for bound, here in zip((*histogram.bounds, float("inf")), histogram.counts, strict=True):
            count += here
            self._put(family, f"{family.name}_bucket", [*own, f'le="{_number(bound)}"'], count)
        self._put(family, f"{family.name}_sum", own, histogram.sum)
        self._put(family, f"{family.name}_count", own, count)

    def _put(self, family: Family, name: str, labels: list[str], value: float) -> None:
        series = f"{name}{{{','.join(labels)}}}" if labels else name
        self._families.setdefault(family, {})[series] = f"{series} {_number(value)}"

    def text(self) -> str:
        lines: list[str] = []
        for family, series in self._families.items():
            lines.append(f"# HELP {family.name} {_escaped(family.help)}")
            lines.append(f"# TYPE {family.name} {family.kind.value}")
            lines += series.values()
        return "\n".join(lines) + "\n"


def _labels(names: tuple[str, ...], values: tuple[str, ...]) -> list[str]:
    return [f'{name}="{_escaped_label(value)}"' for name, value in zip(names, values, strict=True)]


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _escaped_label(text: str) -> str:
    return _escaped(text).replace('"', '\\"')


def _number(value: float) -> str:
    if isnan(value):
        return "NaN"
    if isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)
