"""The page of metrics is what Prometheus reads, whatever the labels and values are."""

import math
import re

from hypothesis import given
from hypothesis import strategies as st

from lograft.runtime.histogram import Histogram
from lograft.runtime.observability.prometheus_text import Exposition, Family, MetricKind

_SERIES = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*",?)*)\})? (\S+)')
_LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\["\\n])*)"')
_ESCAPES = {"\\\\": "\\", "\\n": "\n", '\\"': '"'}

NAMES = st.from_regex(r"[a-z][a-z_]{0,10}", fullmatch=True)
VALUES = st.integers(-(2**70), 2**70) | st.floats()
Series = tuple[str, tuple[tuple[str, str], ...]]


def unescape(text: str) -> str:
    return re.sub(r'\\[\\n"]', lambda found: _ESCAPES[found[0]], text)


def read(page: str) -> tuple[dict[str, tuple[str, str]], dict[Series, float]]:
    """As the format is described: each family's type and help, and each series' value. Asserts what must hold."""
    families: dict[str, tuple[str, str]] = {}
    values: dict[Series, float] = {}
    assert page.endswith("\n")
    lines = page.split("\n")[:-1]
    current = ""
    for number, line in enumerate(lines):
        if line.startswith("# HELP "):
            _, _, current, text = line.split(" ", 3)
            kind = lines[number + 1].removeprefix(f"# TYPE {current} ")
            assert current not in families, "all of a family stands together"
            families[current] = (kind, unescape(text))
        elif not line.startswith("# TYPE "):
            found = _SERIES.fullmatch(line)
            assert found is not None, line
            assert found[1].startswith(current)
            series = (found[1], tuple((name, unescape(value)) for name, value in _LABEL.findall(found[2] or "")))
            assert series not in values, f"{series} is there twice"
            values[series] = float(found[3])
    return families, values


@given(
    st.dictionaries(NAMES, st.tuples(st.sampled_from(["counter", "gauge"]), st.text()), max_size=4),
    st.data(),
)
def test_what_is_added_is_read_back(kinds: dict[str, tuple[str, str]], data: st.DataObject) -> None:
    page, expected = Exposition(), dict[Series, float]()
    for name, (kind, text) in kinds.items():
        labels = data.draw(st.lists(NAMES, unique=True, max_size=3).map(tuple))
        family = Family(name, MetricKind(kind), text.replace("\r", ""), labels)
        for values in data.draw(st.lists(st.tuples(*[st.text()] * len(labels)), min_size=1, max_size=4)):
            value = data.draw(VALUES)
            page.add(family, value, *values)
            expected[name, tuple(zip(labels, values, strict=True))] = float(value)
    families, found = read(page.text()) if kinds else ({}, {})
    assert families == {name: (kind, text.replace("\r", "")) for name, (kind, text) in kinds.items()}
    assert found.keys() == expected.keys()
    for series, value in expected.items():
        assert found[series] == value or (math.isnan(found[series]) and math.isnan(value))


@given(st.lists(st.floats(0, 100)), st.text())
def test_buckets_of_a_histogram_count_all_that_is_at_most_their_bound(observed: list[float], label: str) -> None:
    histogram = Histogram()
    for value in observed:
        histogram.observe(value)
    page = Exposition()
    page.add_histogram(Family("waits_seconds", MetricKind.HISTOGRAM, "Waits.", ("who",)), histogram, label)
    families, found = read(page.text())
    assert families == {"waits_seconds": ("histogram", "Waits.")}
    who = ("who", label)
    buckets = {
        float(dict(labels)["le"]): count for (name, labels), count in found.items() if name == "waits_seconds_bucket"
    }
    assert buckets == {bound: sum(value <= bound for value in observed) for bound in (*histogram.bounds, float("inf"))}
    assert found["waits_seconds_count", (who,)] == len(observed)
    assert math.isclose(found["waits_seconds_sum", (who,)], sum(observed), abs_tol=1e-9)
