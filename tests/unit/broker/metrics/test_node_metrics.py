"""A node's page has the families of prometheus-client's own collectors, with about the same values."""

import gc

import prometheus_client
import pytest
from support.metrics_page import series_on

from lograft.broker.metrics.node_metrics import add_process
from lograft.runtime.observability.process_stats import process_stats
from lograft.runtime.observability.prometheus_text import Exposition

# Other fields of the version follow from the one label that we have.
LEFT_OUT = {"python_info"}


def test_process_and_garbage_collector_are_as_the_standard_collectors_tell_them() -> None:
    gc.collect()
    page = Exposition()
    add_process(page, process_stats())
    ours = series_on(page.text())
    registry = prometheus_client.CollectorRegistry()
    prometheus_client.ProcessCollector(registry=registry)
    prometheus_client.GCCollector(registry=registry)
    theirs = series_on(prometheus_client.generate_latest(registry).decode())
    assert {series for series in ours if series[0] not in LEFT_OUT} == set(theirs)
    for series, value in theirs.items():
        assert ours[series] == pytest.approx(value, rel=0.5, abs=3), series
