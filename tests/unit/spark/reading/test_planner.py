"""From what is asked for and what there is to ranges of offsets."""

import json
import re
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from lograft.clients.admin.sync_admin import Admin
from lograft.clients.errors import InvalidArgument, OffsetOutOfRange, UnknownPartition, UnknownTopic
from lograft.clients.types import TopicPartition
from lograft.spark.common.options import batch_options
from lograft.spark.reading.planner import Planner


class FakeAdmin:
    """Topics whose logs are [first, end), a record a second. `before_list` is called before offsets are looked up."""

    def __init__(self, **logs: list[tuple[int, int]]) -> None:
        self.logs = {TopicPartition(topic, at): log for topic, each in logs.items() for at, log in enumerate(each)}
        self.before_list: Callable[[str | int], None] = lambda at: None

    def list_topics(self, *, include_internal: bool) -> list[str]:
        assert include_internal, "a topic that lists leave out is not missing"
        return [*sorted({topic for topic, _ in self.logs}), "deleted-a-moment-ago"]

    def describe_cluster(self, names: Iterable[str] = ()) -> Any:
        known = sorted({topic for topic, _ in self.logs})
        for name in names:
            if name not in known:
                raise UnknownTopic(f"there is no topic {name!r}")
        return SimpleNamespace(
            topics=[
                SimpleNamespace(
                    name=name, id=UUID(int=number), partitions=[each for each in self.logs if each.topic == name]
                )
                for number, name in enumerate(known)
                if name in names or not names
            ]
        )

    def list_offsets(self, partitions: Iterable[TopicPartition], at: str | int) -> dict[TopicPartition, int | None]:
        self.before_list(at)
        return {each: self._offset(*self.logs[each], at) for each in partitions}

    def _offset(self, first: int, end: int, at: str | int) -> int | None:
        if isinstance(at, str):
            return first if at == "earliest" else end
        found = max(first, -(-at // 1000))
        return found if found < end else None

    def describe_replicas(self, topics: Iterable[str]) -> list[Any]:
        return [
            SimpleNamespace(partition=each, start=first, end=end, size_bytes=100 * (end - first), is_leader=leads)
            for each, (first, end) in self.logs.items()
            if each.topic in topics
            for leads in (True, False)
        ]


def planned(admin: FakeAdmin, **options: object) -> str:
    given = {name: value if isinstance(value, str) else json.dumps(value) for name, value in options.items()}
    planner = Planner(cast(Admin, admin), batch_options({"kafka.bootstrap.servers": "x:1", **given}))
    return ", ".join(map(str, planner.split(planner.batch())))


def logs() -> FakeAdmin:
    return FakeAdmin(bills=[(5, 20)], orders=[(0, 10), (3, 3), (0, 100)])


@pytest.mark.parametrize(
    ("options", "ranges"),
    [
        ({"subscribe": "orders"}, "orders-0 [0, 10), orders-2 [0, 100)"),
        ({"subscribe": "orders,bills"}, "bills-0 [5, 20), orders-0 [0, 10), orders-2 [0, 100)"),
        ({"subscribePattern": "b.*"}, "bills-0 [5, 20)"),
        ({"subscribePattern": ".*s|deleted.*"}, "bills-0 [5, 20), orders-0 [0, 10), orders-2 [0, 100)"),
        ({"subscribePattern": "c.*"}, ""),
        ({"assign": {"orders": [2]}}, "orders-2 [0, 100)"),
        ({"subscribe": "bills", "startingOffsets": {"bills": {"0": 7}}}, "bills-0 [7, 20)"),
        ({"subscribe": "bills", "endingOffsets": {"bills": {"0": 7}}}, "bills-0 [5, 7)"),
        (
            {"subscribe": "bills", "startingOffsets": {"bills": {"0": -2}}, "endingOffsets": {"bills": {"0": -1}}},
            "bills-0 [5, 20)",
        ),
        ({"subscribe": "bills", "startingTimestamp": "6500", "endingTimestamp": "9000"}, "bills-0 [7, 9)"),
        ({"subscribe": "bills", "endingTimestamp": "99000"}, "bills-0 [5, 20)"),
        ({"subscribe": "bills", "endingTimestamp": "0"}, ""),
        (
            {"subscribe": "bills", "startingTimestamp": "99000", "startingOffsetsByTimestampStrategy": "latest"},
            "",
        ),
        (
            {
                "assign": {"orders": [0, 2]},
                "startingOffsetsByTimestamp": {"orders": {"0": 9000, "2": 50000}},
                "endingOffsetsByTimestamp": {"orders": {"0": 9500, "2": 60000}},
            },
            "orders-0 [9, 10), orders-2 [50, 60)",
        ),
        ({"assign": {"orders": [2]}, "maxBytesPerPartition": "5000"}, "orders-2 [0, 50), orders-2 [50, 100)"),
    ],
)
def test_ranges_are_what_is_asked_for_of_what_there_is(options: dict[str, object], ranges: str) -> None:
    assert planned(logs(), **options) == ranges


BILLS = {"subscribe": "bills"}


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"subscribe": "bills,gone"}, UnknownTopic, "there is no topic 'gone'"),
        ({"assign": {"bills": [1]}}, UnknownPartition, "topic 'bills' has no partition 1: it has 0 to 0"),
        (
            BILLS | {"startingOffsets": {"orders": {"0": 1}}},
            InvalidArgument,
            "option startingOffsets says nothing of bills-0",
        ),
        (
            BILLS | {"endingOffsets": {"bills": {"0": 9, "1": 9}}},
            InvalidArgument,
            "option endingOffsets has bills-1, which is not read",
        ),
        (
            BILLS | {"startingOffsetsByTimestamp": {}},
            InvalidArgument,
            "option startingOffsetsByTimestamp says nothing of bills-0",
        ),
        (
            BILLS | {"startingOffsets": {"bills": {"0": 9}}, "endingOffsets": {"bills": {"0": 8}}},
            InvalidArgument,
            "bills-0 ends at 8, before it starts at 9",
        ),
        (BILLS | {"startingOffsets": {"bills": {"0": 4}}}, OffsetOutOfRange, "bills-0 [4, 20) is asked for, but"),
        (BILLS | {"startingOffsets": {"bills": {"0": 21}}}, OffsetOutOfRange, "there is [5, 20): ask for that, or"),
        (BILLS | {"endingOffsets": {"bills": {"0": 21}}}, OffsetOutOfRange, "there is [5, 20): ask for that, or"),
        (
            BILLS | {"startingTimestamp": "99000"},
            InvalidArgument,
            "bills-0 has no record of 99000 or later to start at: start earlier, or set starting",
        ),
    ],
)  # fmt: skip
def test_what_is_not_there_is_refused(options: dict[str, object], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=re.escape(message)):
        planned(logs(), **options)


@pytest.mark.parametrize(
    ("start", "end", "left"),
    [
        (0, 10, "bills-0 [5, 10)"),
        (7, 99, "bills-0 [7, 20)"),
        (0, 99, "bills-0 [5, 20)"),
        (0, 3, ""),
        (30, 40, ""),
        (30, 7, ""),
    ],
)
def test_what_is_left_of_it_is_read_if_losing_data_is_no_failure(start: int, end: int, left: str) -> None:
    edges = {"startingOffsets": {"bills": {"0": start}}, "endingOffsets": {"bills": {"0": end}}}
    assert planned(logs(), **BILLS, **edges, failOnDataLoss="false") == left


def test_retention_and_producers_may_go_on_while_a_read_is_planned() -> None:
    """Whoever asks for all there is, does not ask for what was there a moment before."""
    admin = FakeAdmin(orders=[(0, 100)])

    def go_on(_at: str | int) -> None:
        first, end = admin.logs[TopicPartition("orders", 0)]
        admin.logs[TopicPartition("orders", 0)] = (first + 1, end + 1)

    admin.before_list = go_on
    assert re.fullmatch(r"orders-0 \[\d, 10\d\)", planned(admin, subscribe="orders"))
