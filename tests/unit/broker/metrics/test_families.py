"""The metrics, the table that documents them, the dashboard and the alerts all speak of the same."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from lograft.broker.metrics.families import FAMILIES
from lograft.runtime.observability.prometheus_text import MetricKind

ROOT = Path(__file__).resolve().parents[4]
DASHBOARD = ROOT / "deploy" / "grafana" / "lograft.json"
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yml"

BY_NAME = {family.name: family for family in FAMILIES}

# What may stand in a query beside metrics and labels.
WORDS = {
    "absent", "and", "by", "changes", "count", "deriv", "histogram_quantile", "increase", "max", "min", "min_over_time",
    "on", "or", "predict_linear", "rate", "sum", "time", "vector",
}  # fmt: skip
OTHERS = {"up"}  # Prometheus itself has it of each target


def documented() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Type and labels of each metric, as the tables have them."""
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| ([\w, ]*)\|", (ROOT / "docs" / "metrics.md").read_text(), re.MULTILINE)
    assert len(rows) == len({name for name, _, _ in rows}), "a metric is documented twice"
    return {name: (kind, tuple(filter(None, labels.strip().split(", ")))) for name, kind, labels in rows}


def test_every_metric_is_documented_as_it_is_and_no_other() -> None:
    assert documented() == {family.name: (family.kind.value, family.labels) for family in FAMILIES}


def test_names_are_as_is_the_custom() -> None:
    assert len(BY_NAME) == len(FAMILIES)
    for family in FAMILIES:
        assert re.fullmatch(r"(lograft|process|python)(_[a-z]+)+", family.name)
        assert family.name.endswith("_total") == (family.kind is MetricKind.COUNTER), family.name
        assert family.name.endswith("_seconds") or family.kind is not MetricKind.HISTOGRAM
        assert "le" not in family.labels
        assert family.help.endswith(".")


# -- queries


def queries_of_alerts() -> Iterator[tuple[str, str]]:
    for group in yaml.safe_load(ALERTS.read_text())["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]


def queries_of_dashboard() -> Iterator[tuple[str, str]]:
    dashboard = json.loads(DASHBOARD.read_text())
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["query"]


def tokens(query: str) -> Iterator[tuple[str, str]]:
    """("metric" or "label", name) of all names in a query. Asserts that it is made of what queries are made of."""
    place, depth = 0, 0
    lexemes = re.compile(
        r'\s+|(?P<text>"[^"]*")|(?P<range>\[[^\]]+\])|(?P<number>\d[\d.]*)|(?P<name>[a-zA-Z_]\w*)'
        r"|(?P<sign>==|!=|=~|!~|>=|<=|[-+*/<>=,(){}])"
    )
    is_label = [False]
    word = ""
    while place < len(query):
        found = lexemes.match(query, place)
        assert found is not None, query[place:]
        place = found.end()
        sign, name = found["sign"], found["name"]
        if sign in ("(", "{"):
            depth += 1
            is_label.append(sign == "{" or word in ("by", "on", "without", "ignoring"))
        elif sign in (")", "}"):
            depth -= 1
            assert depth >= 0, query
            is_label.pop()
        elif name and (is_label[-1] or name not in WORDS):
            yield ("label" if is_label[-1] else "metric"), name
        if found.group().strip():
            word = name or ""
    assert depth == 0, query


def check(query: str) -> None:
    names = list(tokens(query.replace("label_values(lograft_build_info, job)", "lograft_build_info")))
    metrics = [name for kind, name in names if kind == "metric"]
    assert metrics, "it asks for nothing"
    labels = {"job", "instance"}
    for name in metrics:
        if name in OTHERS:
            continue
        family = BY_NAME.get(name) or BY_NAME.get(re.sub("_(bucket|sum|count)$", "", name))
        assert family is not None, f"there is no metric {name}"
        assert (name != family.name) == (family.kind is MetricKind.HISTOGRAM), name
        labels |= {*family.labels, *(["le"] if name.endswith("_bucket") else [])}
    for function, name in re.findall(r"\b(rate|increase|deriv|predict_linear)\((\w+)", query):
        is_gauge = name in BY_NAME and BY_NAME[name].kind is MetricKind.GAUGE
        assert is_gauge == (function in ("deriv", "predict_linear")), f"{function} of {name}"
    unknown = {name for kind, name in names if kind == "label"} - labels
    assert not unknown, f"{query} asks for labels that none of its metrics has: {unknown}"


ALL = [*queries_of_alerts(), *queries_of_dashboard()]


@pytest.mark.parametrize("query", [query for _, query in ALL], ids=[title for title, _ in ALL])
def test_what_dashboard_and_alerts_ask_for_exists(query: str) -> None:
    check(query)


@pytest.mark.parametrize(
    "query",
    [
        "sum(lograft_requests)",
        "lograft_disk_sync_seconds",
        "rate(lograft_requests_total{topic='x'}[5m])",
        'rate(lograft_requests_total{topic="x"}[5m])',
        "sum by (topic) (lograft_partitions)",
        "sum(lograft_partitions",
        "lograft_partitions_bucket",
        "sum by (instance) (up) > nothing",
        "rate(lograft_partitions[5m])",
        "deriv(lograft_requests_total[5m])",
    ],
)
def test_a_query_that_is_wrong_is_found(query: str) -> None:
    with pytest.raises(AssertionError):
        check(query)


def labels_left_by(query: str) -> set[str]:
    """Which labels its result has: those it is grouped by, or else all that its metrics have. What is behind `and on`
    only says which are left."""
    query = query.partition(" and on ")[0]
    if grouped := re.search(r"\bby \(([^)]*)\)", query):
        return set(grouped[1].split(", ")) - {"le"}
    if re.match("(sum|max|min|count) *[(]", query):
        return set()
    metrics = [BY_NAME[name] for kind, name in tokens(query) if kind == "metric" and name in BY_NAME]
    return {"job", "instance", *(label for family in metrics for label in family.labels)}


def test_alerts_say_what_is_wrong_and_what_to_do() -> None:
    rules: list[dict[str, Any]] = [
        rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]
    ]
    assert len({rule["alert"] for rule in rules}) == len(rules) > 10
    for rule in rules:
        assert set(rule) - {"for"} == {"alert", "expr", "labels", "annotations"}
        assert re.fullmatch(r"\d+[smh]", rule.get("for", "0s"))
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert set(rule["annotations"]) == {"summary", "remedy"}
        for label in re.findall(r"\$labels\.(\w+)", "".join(rule["annotations"].values())):
            assert label in labels_left_by(rule["expr"]), rule["alert"]


def test_that_nothing_is_left_to_tell_of_controllers_is_an_alert_too() -> None:
    """What is gone does not show: sums of it are not 0, there is none."""
    assert "absent(lograft_controller_active)" in dict(queries_of_alerts())["LograftNoActiveController"]


def test_clusters_of_other_jobs_are_not_added_up() -> None:
    for alert, query in queries_of_alerts():
        groupings = re.findall(r"\b(?:sum|max|min|count)\b(?: by \(([^)]*)\))?", query)
        assert all("job" in labels or "instance" in labels for labels in groupings), alert


def test_panels_do_not_lie_on_each_other() -> None:
    taken: dict[tuple[int, int], str] = {}
    panels = json.loads(DASHBOARD.read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert taken.setdefault((x, y), panel["title"]) == panel["title"]


# -- the alerts' own tests

STORIES = ALERTS.with_name("alerts_test.yml")


def test_every_alert_is_in_a_story_and_stories_are_of_metrics_that_there_are() -> None:
    text = STORIES.read_text()
    assert not [name for name, _ in queries_of_alerts() if name not in text]
    names = {re.sub(r"_bucket$", "", name) for name in re.findall(r"series: '(\w+)\{", text)}
    assert names - OTHERS <= set(BY_NAME)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed: it comes with Prometheus")
@pytest.mark.parametrize("arguments", [["check", "rules", ALERTS.name], ["test", "rules", STORIES.name]])
def test_prometheus_makes_of_them_what_is_meant(arguments: list[str]) -> None:
    done = subprocess.run(
        ["promtool", *arguments], cwd=ALERTS.parent, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
