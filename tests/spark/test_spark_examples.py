"""The Spark programs in `examples/spark` give what a few lines of plain Python give for the same records."""

import importlib.util
import random
import re
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lograft import Admin, Consumer, Producer
from lograft.testing import TestingCluster

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "spark"
BEGIN = datetime(2026, 1, 5, 9, 30, tzinfo=UTC)


@pytest.fixture
def bootstrap(cluster: TestingCluster) -> str:
    return cluster.bootstrap


def example(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The program, as a module."""
    monkeypatch.syspath_prepend(EXAMPLES)
    spec = importlib.util.spec_from_file_location(f"spark_example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def create(bootstrap: str, *topics: str, **config: str) -> None:
    with Admin(bootstrap) as admin:
        for topic in topics:
            admin.create_topic(
                topic, partitions=3, config={key.replace("_", "."): text for key, text in config.items()}
            )


def store(bootstrap: str, topic: str, records: list[dict[str, Any]], key: str) -> None:
    with Producer(bootstrap, key_serializer="string", value_serializer="json") as producer:
        for record in records:
            producer.send(topic, record, key=record[key])


def stored(bootstrap: str, topic: str) -> list[dict[str, Any]]:
    """All there is, as JSON."""
    with Consumer(bootstrap, auto_offset_reset="earliest", value_deserializer="json") as consumer:
        partitions = consumer.partitions_for(topic)
        consumer.assign(partitions)
        count = sum(consumer.end_offsets(partitions).values())
        records: list[dict[str, Any]] = []
        while len(records) < count:
            records += [record.value for record in consumer.poll(timeout=5.0)]
    return records


def at(seconds: float) -> str:
    return (BEGIN + timedelta(seconds=seconds)).isoformat(timespec="milliseconds")


def seconds_of(text: str) -> float:
    return (datetime.fromisoformat(text) - BEGIN).total_seconds()


# -- word_count.py


def test_word_count_is_what_a_counter_counts(
    spark: SparkSession, bootstrap: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    create(bootstrap, "lines")
    with Producer(bootstrap, value_serializer="string") as producer:
        producer.send_many("lines", lines)
    program = example("word_count", monkeypatch)
    counted = {row.word: row["count"] for row in program.count_words(spark, bootstrap, "lines").collect()}
    expected = Counter(word for line in lines for word in line.lower().split())
    assert counted == expected

    program.main(spark, program.parse(["--bootstrap", bootstrap, "--top", "1"]))
    (word, times), *_ = sorted(expected.items(), key=lambda each: (-each[1], each[0]))
    assert re.search(rf"\|{re.escape(word)} *\|{times} *\|", capsys.readouterr().out)


# -- stock_trades.py

WINDOW, SLIDE, WATERMARK = 5, 1, 10


class PlainWindows:
    """The same windows in plain Python. Times are seconds since BEGIN."""

    def __init__(self) -> None:
        self.watermark = -10_000.0
        self.latest = -10_000.0
        self.asks: dict[tuple[str, int], list[float]] = defaultdict(list)
        self.dropped = 0

    def run(self, trades: list[dict[str, Any]]) -> None:
        """One batch. The watermark moves at its end."""
        for trade in trades:
            second = seconds_of(trade["time"])
            for begin in range(int(second) - WINDOW + SLIDE, int(second) + 1, SLIDE):
                if begin + WINDOW > self.watermark:
                    self.asks[trade["ticker"], begin].append(trade["ask"])
                else:
                    self.dropped += 1
            self.latest = max(self.latest, second)
        self.watermark = max(self.watermark, self.latest - WATERMARK)

    def written(self) -> dict[tuple[str, int], tuple[float, int, float]]:
        return {
            window: (min(asks), len(asks), pytest.approx(sum(asks) / len(asks)))  # type: ignore[misc]
            for window, asks in self.asks.items()
            if window[1] + WINDOW <= self.watermark
        }


def some_trades(rng: random.Random, first: float, last: float, count: int) -> list[dict[str, Any]]:
    return [
        {
            "ticker": rng.choice(["ACME", "INIT", "HOOLI"]),
            "ask": round(rng.uniform(10, 20), 2),
            "time": at(round(rng.uniform(first, last), 3)),
        }
        for _ in range(count)
    ]


def test_stock_trades_in_windows_with_late_ones_counted_and_those_too_late_left_out(
    spark: SparkSession, bootstrap: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    create(bootstrap, "trades", "ask-prices")
    program = example("stock_trades", monkeypatch)
    options = program.parse(["--bootstrap", bootstrap, "--checkpoint", str(tmp_path / "checkpoint"), "--available-now"])
    rng = random.Random(7)
    up_to_a_minute = [*some_trades(rng, 0, 59, 200), {"ticker": "ACME", "ask": 15.0, "time": at(60)}]
    late = some_trades(rng, 52, 60, 20)  # the watermark is at 50 by now
    half_late = [{"ticker": "INIT", "ask": 1.0, "time": at(48.5)}]  # its windows end at 49 to 53
    too_late = [{"ticker": "ACME", "ask": 0.01, "time": at(second)} for second in (3, 20, 44)]
    runs = [
        up_to_a_minute,
        [*late, *half_late, *too_late, *some_trades(rng, 60, 80, 60)],
        some_trades(rng, 80, 110, 90),
    ]
    model = PlainWindows()
    for trades in runs:
        store(bootstrap, "trades", trades, key="ticker")
        program.main(spark, options)
        model.run(trades)

    assert model.dropped == 3 * WINDOW + 2, "the data has trades that are too late, and one that is for some windows"
    windows = {
        (record["ticker"], int(seconds_of(record["start"]))): (record["lowest"], record["trades"], record["average"])
        for record in stored(bootstrap, "ask-prices")
    }
    assert windows == model.written()
    assert len(stored(bootstrap, "ask-prices")) == len(windows), "each window is written once"
    assert windows["INIT", 48][0] == 1.0
    assert min(lowest for lowest, _, _ in windows.values()) == 1.0


# -- click_enrichment.py


def test_clicks_are_enriched_with_profiles_and_searches(
    spark: SparkSession, bootstrap: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    create(bootstrap, "views", "searches", "enriched-views")
    create(bootstrap, "profiles", cleanup_policy="compact")
    rng = random.Random(11)
    users = ["ada", "grace", "edsger", "barbara", "donald"]
    old = [{"user": user, "country": "nowhere"} for user in users[:3]]
    profiles = [{"user": user, "country": country} for user, country in zip(users, ["UK", "US", "NL"], strict=False)]
    store(bootstrap, "profiles", [*old, *profiles, {"user": "donald", "country": "US"}], key="user")
    with Producer(bootstrap) as producer:
        producer.send("profiles", None, key=b"donald")  # deleted again
    countries = {profile["user"]: profile["country"] for profile in profiles}

    views = [{"user": rng.choice(users), "page": f"/{number}", "time": at(rng.randrange(7200))} for number in range(80)]
    searches = [
        {"user": rng.choice(users[:4]), "query": f"q{number}", "time": at(rng.randrange(7200))} for number in range(20)
    ]
    # Long after all of that: nothing is still to come then.
    done = [{"user": "nobody", "page": "/", "query": "", "time": at(6 * 3600)}]
    program = example("click_enrichment", monkeypatch)
    options = program.parse(
        [
            "--bootstrap", bootstrap, "--checkpoint", str(tmp_path / "checkpoint"),
            "--watermark", "3 hours", "--available-now",
        ]
    )  # fmt: skip
    for some_views, some_searches in [(views[:40], searches[10:]), (views[40:] + done, searches[:10] + done)]:
        store(bootstrap, "views", some_views, key="user")
        store(bootstrap, "searches", some_searches, key="user")
        program.main(spark, options)

    expected = []
    for view in views:
        before = [
            search
            for search in searches
            if search["user"] == view["user"] and 0 <= seconds_of(view["time"]) - seconds_of(search["time"]) <= 1800
        ]
        for search in before or [{}]:
            expected.append((view["user"], countries.get(view["user"]), view["page"], search.get("query")))
    enriched = [
        (record["user"], record.get("country"), record["page"], record.get("query"))
        for record in stored(bootstrap, "enriched-views")
        if record["user"] != "nobody"
    ]
    assert Counter(enriched) == Counter(expected)
    assert sum(query is None for *_, query in expected) > 10, "the data has views of both kinds"
    assert sum(query is not None for *_, query in expected) > 10


# -- daily_report.py


def some_orders(rng: random.Random, begin: datetime, end: datetime) -> list[tuple[datetime, int, dict[str, Any]]]:
    """When, in which partition, and what."""
    minutes = int((end - begin).total_seconds()) // 60
    return [
        (
            begin + timedelta(minutes=minute, milliseconds=rng.randrange(60_000)),
            rng.randrange(2),
            {"country": rng.choice(["FR", "DE"]), "amount": round(rng.uniform(1, 99), 2)},
        )
        for minute in range(0, minutes, 7)
    ]


def test_a_days_orders_are_reported_by_country_and_hour(
    spark: SparkSession, bootstrap: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    create(bootstrap, "day-orders", "order-report", retention_ms="-1")  # orders of a day that is long past
    midnight, next_midnight = (datetime(2026, 1, day, tzinfo=UTC) for day in (5, 6))
    rng, one_day = random.Random(13), timedelta(days=1)
    orders = [
        *some_orders(rng, midnight - one_day, next_midnight),
        # One of the day is stored behind one of the next.
        (next_midnight + timedelta(minutes=1), 0, {"country": "FR", "amount": 0.5}),
        (next_midnight - timedelta(minutes=1), 0, {"country": "FR", "amount": 0.25}),
        *some_orders(rng, next_midnight + timedelta(minutes=2), next_midnight + one_day),
        # A partition has nothing of the day, nor later.
        (midnight - timedelta(hours=1), 2, {"country": "JP", "amount": 1.0}),
    ]
    with Producer(bootstrap, value_serializer="json") as producer:
        for moment, partition, order in orders:
            producer.send("day-orders", order, partition=partition, timestamp=int(moment.timestamp() * 1000))
    program = example("daily_report", monkeypatch)
    wanted = ["--topic", "day-orders", "--day", "2026-01-05", "--target", "order-report"]
    program.main(spark, program.parse(["--bootstrap", bootstrap, *wanted]))

    amounts: dict[tuple[str, int], list[float]] = defaultdict(list)
    for moment, _, order in orders:
        if moment.date() == midnight.date():
            amounts[order["country"], moment.hour].append(order["amount"])
    reported = {
        (record["country"], record["hour"]): (record["orders"], record["amount"])
        for record in stored(bootstrap, "order-report")
    }
    assert reported == {hour: (len(some), pytest.approx(sum(some), abs=0.01)) for hour, some in amounts.items()}
    assert len(stored(bootstrap, "order-report")) == len(reported)
    shown = capsys.readouterr().out
    assert len(re.findall(r"^\|(?:FR|DE) *\|", shown, re.MULTILINE)) == len(reported)
