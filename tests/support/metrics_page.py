"""A page of metrics, read by the parser of prometheus-client."""

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

Series = tuple[str, tuple[tuple[str, str], ...]]


def families_on(page: str) -> list[Metric]:
    """Parse a page. Assert what the parser lets pass: families are contiguous, and each is there once."""
    assert page.endswith("\n")
    families = list(text_string_to_metric_families(page))
    headers = [line.split(" ")[2] for line in page.split("\n") if line.startswith("# TYPE ")]
    assert len(headers) == len(set(headers)) == len(families)
    return families


def series_on(page: str) -> dict[Series, float]:
    """Return each series' value by its name and labels. Assert that each is there once."""
    samples = [sample for family in families_on(page) for sample in family.samples]
    series = {(sample.name, tuple(sample.labels.items())): float(sample.value) for sample in samples}
    assert len(series) == len(samples), "a series is there twice"
    return series
