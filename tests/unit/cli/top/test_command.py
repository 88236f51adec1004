"""Two looks at a cluster, and what `lograft top` makes of them."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.described_clusters import described

from lograft.cli.common.cluster_options import Settings
from lograft.cli.top.model import Snapshot, top_view
from lograft.cli.top.screen import Order, allot, rate_text, top_lines
from lograft.clients.admin.model.group_types import GroupListing, GroupState
from lograft.clients.admin.model.types import BrokerLoad, PartitionLoad, QuorumDescription, QuorumMember
from lograft.clients.types import TopicPartition

SETTINGS = Settings("b", 1)
QUORUM = QuorumDescription(
    "test", 1, 4, 10, 10, tuple(QuorumMember(number, None, f"c{number}:1", True, 10) for number in (1, 2, 3))
)


def partition(name: str, number: int, *, broker: int = 1, bytes_in: int = 0, bytes_out: int = 0) -> PartitionLoad:
    return PartitionLoad(
        TopicPartition(name, number), broker, True, bytes_in, bytes_in // 10, bytes_out, bytes_out // 10, 0, 0
    )


def load(
    broker: int, at_ms: int, *partitions: PartitionLoad, uptime_ms: int = 100_000, requests: int = 0
) -> BrokerLoad:
    bytes_in, bytes_out = sum(each.bytes_in for each in partitions), sum(each.bytes_out for each in partitions)
    return BrokerLoad(
        broker, uptime_ms + at_ms, at_ms, requests, 0, bytes_in, bytes_in // 10, bytes_out, bytes_out // 10, 0, 0, 3.5,
        2, partitions,
    )  # fmt: skip


def snapshot(at_ms: int, *loads: BrokerLoad, lags: dict[str, int | None] | None = None) -> Snapshot:
    groups = [GroupListing(name, GroupState.STABLE, 1, 1) for name in lags or {}]
    cluster = described({"orders": [[1, 2, 3], [2, 3, 1]], "small": [[3, 1, 2]]})
    return Snapshot(at_ms, cluster, QUORUM, "", {each.id: each for each in loads}, groups, lags or {})


def all_three(at_ms: int, *partitions: PartitionLoad) -> list[BrokerLoad]:
    return [load(1, at_ms, *partitions), load(2, at_ms), load(3, at_ms)]


def test_rates_are_what_was_counted_between_two_looks_by_the_brokers_own_clock() -> None:
    before = snapshot(0, load(1, 5000, partition("orders", 0, bytes_in=1000), requests=50), *all_three(5000)[1:])
    now = snapshot(9999, load(1, 7000, partition("orders", 0, bytes_in=5000), requests=60), *all_three(7000)[1:])
    status = top_view(before, now)["status"]
    assert (status["bytesInPerSecond"], status["recordsInPerSecond"], status["requestsPerSecond"]) == (2000, 200, 5)
    first, second, _ = status["brokers"]
    assert (first["bytesInPerSecond"], second["bytesInPerSecond"]) == (2000, 0)
    assert (first["leaders"], first["replicas"], first["eventLoopLagMs"]) == (1, 3, 3.5)
    (hot,) = status["partitions"]
    assert (hot["topic"], hot["partition"], hot["leader"], hot["bytesInPerSecond"]) == ("orders", 0, 1, 2000)
    assert status["problems"] == []


def test_without_a_look_before_no_rate_is_known() -> None:
    status = top_view(None, snapshot(0, *all_three(5000, partition("orders", 0, bytes_in=1000))))["status"]
    assert (status["bytesInPerSecond"], status["brokers"][0]["requestsPerSecond"], status["partitions"]) == (
        None,
        None,
        [],
    )


@pytest.mark.parametrize(("clock_ms", "uptime_before_ms"), [(7000, 9000), (3000, 9000), (7000, 10)])
def test_a_broker_that_was_started_anew_has_counted_from_nothing(clock_ms: int, uptime_before_ms: int) -> None:
    before = snapshot(0, load(1, 5000, partition("orders", 0, bytes_in=400), uptime_ms=uptime_before_ms - 5000))
    anew = load(1, clock_ms, partition("orders", 0, bytes_in=500), uptime_ms=500 - clock_ms)
    status = top_view(before, snapshot(2000, anew))["status"]
    assert (status["brokers"][0]["bytesInPerSecond"], status["partitions"][0]["bytesInPerSecond"]) == (1000, 1000)


def test_a_broker_that_was_away_is_not_known_yet_and_does_not_hide_the_others() -> None:
    before, now = snapshot(0, *all_three(5000)[:2]), snapshot(1000, *all_three(6000))
    assert [each["requestsPerSecond"] for each in top_view(before, now)["status"]["brokers"]] == [0, 0, None]


def test_partitions_of_several_brokers_are_one_and_the_busiest_is_first() -> None:
    def brokers(at_ms: int, scale: int) -> list[BrokerLoad]:
        return [
            load(1, at_ms, partition("orders", 0, bytes_in=100 * scale), partition("small", 0, bytes_in=50 * scale)),
            load(2, at_ms, partition("orders", 0, broker=2, bytes_out=10 * scale), partition("orders", 1)),
        ]

    found = top_view(snapshot(0, *brokers(0, 1)), snapshot(0, *brokers(1000, 2)))["status"]["partitions"]
    assert [(each["topic"], each["bytesInPerSecond"], each["bytesOutPerSecond"]) for each in found] == [
        ("orders", 100, 10),
        ("small", 50, 0),
    ]


def test_a_topic_that_is_gone_is_not_shown() -> None:
    before = snapshot(0, load(1, 0))
    found = top_view(before, snapshot(1000, load(1, 1000, partition("gone", 0, bytes_in=5))))["status"]["partitions"]
    assert found == []


def test_partitions_of_topics_that_lists_leave_out_are_shown_on_request() -> None:
    cluster = described({"orders": [[1]], "__consumer_offsets": [[1]], "lograft-spark-staged": [[1]]})

    def at(at_ms: int) -> Snapshot:
        names = [topic.name for topic in cluster.topics]
        return replace(
            snapshot(0, load(1, at_ms, *(partition(name, 0, bytes_in=at_ms) for name in names))), cluster=cluster
        )

    view = top_view(at(1000), at(2000))["status"]
    assert (view["topics"], [each["topic"] for each in view["partitions"]]) == (1, ["orders"])
    view = top_view(at(1000), replace(at(2000), has_internal=True))["status"]
    assert (view["topics"], len(view["partitions"])) == (1, 3)


def test_groups_are_shown_by_how_far_they_are_behind() -> None:
    before = snapshot(0, lags={"slow": 100, "quick": 50, "unknown": None})
    now = snapshot(2000, lags={"unknown": 1, "quick": 0, "slow": 300, "new": 7, "silent": None})
    found = top_view(before, now)["status"]["groups"]
    assert [(each["name"], each["lag"], each["lagGrowthPerSecond"]) for each in found] == [
        ("slow", 300, 100),
        ("new", 7, None),
        ("unknown", 1, None),
        ("quick", 0, -25),
        ("silent", None, None),
    ]


REMEDY = "start it, restart it if it hangs, or check the network to it"


def test_problems_are_listed_by_cause() -> None:
    cluster = described({"orders": [[1, 2, 3]]}, fenced=[3])
    late = replace(QUORUM, members=(*QUORUM.members[:2], replace(QUORUM.members[2], match_index=5)))
    now = replace(snapshot(0, load(1, 0)), cluster=cluster, quorum=late)
    assert top_view(None, now)["status"]["problems"] == [
        "voter 3 at c3:1 is behind: at 5 of 10",
        f"broker 3 at broker-3:9092 is down: 1 partition under-replicated, none offline; {REMEDY}",
        f"broker 2 at broker-2:9092 does not answer; {REMEDY}",
    ]
    alone = replace(now, quorum=None, trouble="nobody there")
    view = top_view(None, alone)
    assert view["status"]["quorum"]["leader"] is None
    assert any("is unreachable: nobody there; start" in each for each in view["status"]["problems"])
    lines = top_lines(view, SETTINGS, Order.TRAFFIC, height=None)
    assert "3 problems" in lines[0]
    assert any(line.startswith("! broker 3 at broker-3:9092 is down: 1 partition") for line in lines)
    assert [line.split()[:2] for line in lines if line.split()[:1] in (["1"], ["2"], ["3"])] == [
        ["1", "active"], ["2", "silent"], ["3", "fenced"],
    ]  # fmt: skip


# -- lines


def busy_view() -> dict[str, object]:
    names = [("orders", 0), ("orders", 1), ("small", 0)]

    def loads(at_ms: int) -> list[BrokerLoad]:
        scale = at_ms // 1000
        partitions = [
            partition(*name, bytes_in=1000 * scale * (at + 1), bytes_out=9000 * scale * (2 - at))
            for at, name in enumerate(names)
        ]
        return [load(1, at_ms, *partitions), *all_three(at_ms)[1:]]

    lags: dict[str, int | None] = {f"g{number}": number for number in range(10)}
    return top_view(snapshot(0, *loads(1000), lags=lags), snapshot(1000, *loads(2000), lags=lags))


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (Order.TRAFFIC, ["orders-0", "orders-1", "small-0"]),
        (Order.IN, ["small-0", "orders-1", "orders-0"]),
        (Order.OUT, ["orders-0", "orders-1", "small-0"]),
        (Order.NAME, ["orders-0", "orders-1", "small-0"]),
    ],
)
def test_partitions_are_sorted_as_one_likes(order: Order, expected: list[str]) -> None:
    lines = top_lines(busy_view(), SETTINGS, order, height=None)
    shown = [line.split()[0] for line in lines if line.startswith(("orders-", "small-"))]
    assert shown == expected
    assert f"partitions by {order.value}" in lines[0]
    assert "in 6 KB/s, 600 records/s   out 27 KB/s, 2,700 records/s" in lines[2]


def test_what_does_not_fit_is_left_out_fairly() -> None:
    assert allot([0, 3, 100, 100], 23) == [0, 3, 10, 10]
    assert allot([50, 3, 3, 3], 20) == [11, 3, 3, 3]
    assert allot([1, 1], 20) == [1, 1]


@given(st.integers(1, 60))
def test_lines_never_are_more_than_fit(height: int) -> None:
    view = busy_view()
    lines = top_lines(view, SETTINGS, Order.TRAFFIC, height=height)
    assert len(lines) <= height
    if height >= 16:
        assert {"BROKER", "PARTITION", "GROUP"} <= {line.split()[0] for line in lines if line}


def test_rates_for_people() -> None:
    assert [rate_text(each) for each in (None, 0, 0.5, 7, 12.6, 1234567)] == [None, "0", "0.5", "7", "13", "1,234,567"]
