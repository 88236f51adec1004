"""Prometheus reads the page of metrics, whatever the labels and values are. Its own parser is the oracle."""

import math

from hypothesis import given
from hypothesis import strategies as st
from support.metrics_page import families_on, series_on

from lograft.runtime.histogram import Histogram
from lograft.runtime.observability.prometheus_text import Exposition, Family, MetricKind

NAMES = st.from_regex(r"[a-z][a-z_]{0,10}", fullmatch=True).filter(lambda name: not name.endswith("_total"))
# The parser strips lines, and takes quotes in a help text for those of a label.
HELPS = st.text(st.characters(exclude_characters='\r"', exclude_categories=["Cs"])).map(str.strip)
VALUES = st.integers(-(2**70), 2**70) | st.floats()


@given(st.dictionaries(NAMES, st.tuples(st.sampled_from(["counter", "gauge"]), HELPS), max_size=4), st.data())
def test_what_is_added_is_read_back(kinds: dict[str, tuple[str, str]], data: st.DataObject) -> None:
    page, expected = Exposition(), dict[tuple[str, tuple[tuple[str, str], ...]], float]()
    for name, (kind, text) in kinds.items():
        labels = data.draw(st.lists(NAMES, unique=True, max_size=3).map(tuple))
        full_name = f"{name}_total" if kind == "counter" else name
        family = Family(full_name, MetricKind(kind), text, labels)
        for values in data.draw(st.lists(st.tuples(*[st.text()] * len(labels)), min_size=1, max_size=4)):
            value = data.draw(VALUES)
            page.add(family, value, *values)
            expected[full_name, tuple(zip(labels, values, strict=True))] = float(value)
    families, found = (families_on(page.text()), series_on(page.text())) if kinds else ([], {})
    assert {family.name: (family.type, family.documentation) for family in families} == kinds
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
    [family], found = families_on(page.text()), series_on(page.text())
    assert (family.name, family.type, family.documentation) == ("waits_seconds", "histogram", "Waits.")
    who = ("who", label)
    buckets = {
        float(dict(labels)["le"]): count for (name, labels), count in found.items() if name == "waits_seconds_bucket"
    }
    assert buckets == {bound: sum(value <= bound for value in observed) for bound in (*histogram.bounds, float("inf"))}
    assert found["waits_seconds_count", (who,)] == len(observed)
    assert math.isclose(found["waits_seconds_sum", (who,)], sum(observed), abs_tol=1e-9)
