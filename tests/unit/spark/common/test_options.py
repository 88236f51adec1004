"""What a Spark user may say with `.option(...)`, and what is said of all else."""

import re
from typing import Any

import pytest

from lograft.clients.errors import InvalidArgument
from lograft.clients.types import TopicPartition
from lograft.spark.common.offset_options import (
    EARLIEST,
    LATEST,
    EdgeOfAll,
    OffsetsByPartition,
    TimeOfAll,
    TimesByPartition,
)
from lograft.spark.common.options import (
    DEFAULT_TIMEOUT_MS,
    MAX_PARTS,
    READ_OPTIONS,
    ClusterOptions,
    ReadOptions,
    SplitOptions,
    batch_options,
)
from lograft.spark.common.topic_options import Assign, Subscribe, SubscribePattern

SERVERS = {"lograft.bootstrap.servers": "localhost:9092"}
LEAST = {**SERVERS, "subscribe": "orders"}
ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def test_the_least_is_where_the_cluster_is_and_which_topic() -> None:
    assert batch_options(LEAST) == ReadOptions(
        ClusterOptions("localhost:9092", None, DEFAULT_TIMEOUT_MS),
        Subscribe(("orders",)),
        EdgeOfAll(EARLIEST),
        EdgeOfAll(LATEST),
        missing_start_is_latest=False,
        fail_on_data_loss=True,
        include_headers=False,
        split=SplitOptions(None, None, None),
        spreads_reads=False,
        pushes_down=False,
    )


@pytest.mark.parametrize(
    ("name", "value", "field", "expected"),
    [
        ("startingOffsets", "earliest", "start", EdgeOfAll(EARLIEST)),
        ("startingOffsets", "EARLIEST", "start", EdgeOfAll(EARLIEST)),
        ("startingOffsets", '{"orders": {"0": 5}}', "start", OffsetsByPartition({ORDERS_0: 5})),
        ("endingOffsets", "latest", "end", EdgeOfAll(LATEST)),
        ("endingOffsets", '{"orders": {"0": -1, "1": 7}}', "end", OffsetsByPartition({ORDERS_0: LATEST, ORDERS_1: 7})),
        ("startingTimestamp", "0", "start", TimeOfAll(0)),
        ("endingTimestamp", "1767225600000", "end", TimeOfAll(1767225600000)),
        ("startingOffsetsByTimestamp", '{"orders": {"1": 9}}', "start", TimesByPartition({ORDERS_1: 9})),
        ("endingOffsetsByTimestamp", '{"orders": {"0": 0}}', "end", TimesByPartition({ORDERS_0: 0})),
        ("startingOffsetsByTimestampStrategy", "latest", "missing_start_is_latest", True),
        ("startingOffsetsByTimestampStrategy", "error", "missing_start_is_latest", False),
        ("failOnDataLoss", "false", "fail_on_data_loss", False),
        ("failOnDataLoss", "True", "fail_on_data_loss", True),
        ("onBadBatch", "skip", "skips_bad_batches", True),
        ("onBadBatch", "raise", "skips_bad_batches", False),
        ("includeHeaders", "true", "include_headers", True),
        ("minPartitions", "12", "split", SplitOptions(12, None, None)),
        ("minPartitions", str(MAX_PARTS), "split", SplitOptions(MAX_PARTS, None, None)),
        ("maxRecordsPerPartition", "1", "split", SplitOptions(None, 1, None)),
        ("maxBytesPerPartition", str(2**63 - 1), "split", SplitOptions(None, None, 2**63 - 1)),
        ("readFrom", "any", "spreads_reads", True),
        ("readFrom", "leader", "spreads_reads", False),
        ("pushDown", "true", "pushes_down", True),
        ("timeoutMs", "500", "cluster", ClusterOptions("localhost:9092", None, 500)),
        ("lograft.client.rack", "east", "cluster", ClusterOptions("localhost:9092", "east")),
        ("kafka.client.rack", "east", "cluster", ClusterOptions("localhost:9092", "east")),
        ("groupIdPrefix", "reports", "choice", Subscribe(("orders",))),
        ("subscribe", " orders , bills,orders ", "choice", Subscribe(("orders", "bills"))),
    ],
)
def test_each_option_does_what_it_says(name: str, value: str, field: str, expected: Any) -> None:
    for spelled in (name, name.lower(), name.upper()):
        assert getattr(batch_options({**LEAST, spelled: value}), field) == expected


@pytest.mark.parametrize(
    ("name", "value", "choice"),
    [
        ("subscribePattern", "ord.*", SubscribePattern("ord.*")),
        ("assign", '{"orders": [1, 0, 1]}', Assign((ORDERS_0, ORDERS_1))),
    ],
)
def test_there_are_other_ways_to_choose_topics(name: str, value: str, choice: object) -> None:
    assert batch_options({**SERVERS, name: value}).choice == choice


def test_every_option_for_a_batch_is_in_the_tables_above() -> None:
    above = {mark.args[1][at][0] for test in (test_each_option_does_what_it_says,
             test_there_are_other_ways_to_choose_topics) for mark in test.pytestmark
             for at in range(len(mark.args[1]))}  # fmt: skip
    assert set(READ_OPTIONS) == above | {"lograft.bootstrap.servers", "kafka.bootstrap.servers"}


def test_kafkas_name_for_the_addresses_will_do() -> None:
    given = {"kafka.bootstrap.servers": "here:1", "subscribe": "orders"}
    assert batch_options(given).cluster.bootstrap == "here:1"
    assert batch_options({**given, "lograft.bootstrap.servers": "here:1"}).cluster.bootstrap == "here:1"


def test_a_time_counts_more_than_times_by_partition_and_those_more_than_offsets() -> None:
    one_time, times, offsets = {"startingTimestamp": "3"}, {"startingOffsetsByTimestamp": '{"orders": {"0": 4}}'}, {
        "startingOffsets": '{"orders": {"0": 5}}'
    }  # fmt: skip
    assert batch_options({**LEAST, **offsets, **times, **one_time}).start == TimeOfAll(3)
    assert batch_options({**LEAST, **offsets, **times}).start == TimesByPartition({ORDERS_0: 4})


HUGE = "9" * 5000

BAD_VALUES = [
    # option, value, the remedy
    *[(name, "perhaps", "give true or false") for name in ("failOnDataLoss", "includeHeaders", "pushDown")],
    *[
        (name, value, "give a number from 1 to")
        for name in ("minPartitions", "maxRecordsPerPartition", "maxBytesPerPartition", "timeoutMs")
        for value in ("0", "-1", "1.5", "many", "1e3", "٣", HUGE)
    ],
    ("minPartitions", str(MAX_PARTS + 1), f"give a number from 1 to {MAX_PARTS}"),
    ("timeoutMs", str(2**31), "give a number from 1 to"),
    ("maxBytesPerPartition", str(2**63), "give a number from 1 to"),
    ("readFrom", "follower", "give leader or any"),
    ("startingOffsetsByTimestampStrategy", "earliest", "give error or latest"),
    ("startingOffsets", "latest", "always empty"),
    ("endingOffsets", "earliest", "always empty"),
    ("startingOffsets", "oldest", 'give "earliest", or {"orders"'),
    ("endingOffsets", "oldest", 'give "latest", or {"orders"'),
    ("startingOffsets", '{"orders": {"0": -1}}', "give an offset"),
    ("endingOffsets", '{"orders": {"0": -2}}', "give an offset"),
    *[
        (name, value, '{"orders": {"0":')
        for name in ("startingOffsets", "endingOffsets", "startingOffsetsByTimestamp", "endingOffsetsByTimestamp")
        for value in (
            "[]", "5", "null", '"orders"', '{"orders": 5}', '{"orders": [1]}', '{"orders": {"zero": 1}}',
            '{"orders": {"-1": 1}}', '{"orders": {"٣": 1}}', '{"orders": {"0": "1"}}', '{"orders": {"0": 1.5}}',
            '{"orders": {"0": true}}', '{"orders": {"0": null}}', f'{{"orders": {{"0": {2**63}}}}}', "{orders: 0}",
            f'{{"orders": {{"{2**31}": 1}}}}', f'{{"orders": {{"{HUGE}": 1}}}}', f'{{"orders": {{"0": {HUGE}}}}}',
            "[" * 100_000,
        )
    ],
    ("startingOffsets", '{"orders": {"0": -3}}', "give an offset, -2 or -1"),
    *[
        (name, value, "give milliseconds since 1970")
        for name in ("startingTimestamp", "endingTimestamp")
        for value in ("-1", "yesterday", "1.5", str(2**63), HUGE)
    ],
    *[
        (name, '{"orders": {"0": -1}}', "give milliseconds since 1970")
        for name in ("startingOffsetsByTimestamp", "endingOffsetsByTimestamp")
    ],
    ("subscribe", ",, ,", "give one, or several with commas"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value", "remedy"), BAD_VALUES, ids=lambda text: text[:30])
def test_a_bad_value_is_refused_by_name_and_with_a_remedy(name: str, value: str, remedy: str) -> None:
    with pytest.raises(InvalidArgument, match=re.escape(remedy)) as caught:
        batch_options({**LEAST, name.lower(): value})
    assert f"option {name} " in caught.value.message


@pytest.mark.parametrize(
    ("name", "value", "remedy"),
    [
        ("subscribePattern", "[", "no regular expression"),
        ("subscribePattern", "*", "no regular expression"),
        *[
            ("assign", value, 'give {"orders": [0, 1]}')
            for value in (
                "orders", "[]", "{}", '{"orders": []}', '{"orders": 0}', '{"orders": ["0"]}', '{"orders": [-1]}',
                '{"orders": [true]}', '{"orders": [0.5]}', f'{{"orders": [{2**31}]}}', '{"orders": {"0": 1}}',
            )
        ],
    ],
)  # fmt: skip
def test_a_choice_that_is_none_is_refused(name: str, value: str, remedy: str) -> None:
    with pytest.raises(InvalidArgument, match=re.escape(remedy)) as caught:
        batch_options({**SERVERS, name: value})
    assert f"option {name} " in caught.value.message


@pytest.mark.parametrize("name", READ_OPTIONS)
@pytest.mark.parametrize("empty", ["", "  "])
def test_an_empty_value_is_refused(name: str, empty: str) -> None:
    given = {
        key: value for key, value in LEAST.items() if key != "subscribe" or name not in ("subscribePattern", "assign")
    }
    with pytest.raises(InvalidArgument, match=re.escape(f"option {name} is empty: give a value, or leave it out")):
        batch_options({**given, name: empty})


@pytest.mark.parametrize(
    "name",
    [
        "subscrib",
        "startingOffset",
        "kafka.security.protocol",
        "path",
        "maxOffsetsPerTrigger",
        "topic",
        "lograft.group.id",
    ],
)
def test_an_unknown_option_is_refused_with_those_there_are(name: str) -> None:
    with pytest.raises(InvalidArgument, match=re.escape(repr(name.lower()))) as caught:
        batch_options({**LEAST, name: "1"})
    assert all(known in caught.value.message for known in READ_OPTIONS)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"subscribe": "orders"}, "where is the cluster? Give option lograft.bootstrap.servers"),
        (SERVERS, "which topics? Give one of the options subscribe, subscribePattern, assign"),
        ({**LEAST, "subscribePattern": "o.*"}, "subscribe and subscribePattern exclude each other"),
        ({**LEAST, "assign": '{"orders": [0]}'}, "subscribe and assign exclude each other"),
        (
            {**SERVERS, "assign": '{"orders": [0]}', "subscribePattern": "o.*"},
            "subscribePattern and assign exclude each other",
        ),
        (
            {**LEAST, "kafka.bootstrap.servers": "elsewhere:1"},
            "lograft.bootstrap.servers and kafka.bootstrap.servers say different things: give one of them",
        ),
        (
            {**LEAST, "kafka.client.rack": "a", "lograft.client.rack": "b"},
            "lograft.client.rack and kafka.client.rack say different things",
        ),
    ],
)
def test_too_little_or_too_much_is_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidArgument, match=re.escape(message)):
        batch_options(given)
