"""What cannot be is refused through Spark, too, and the reason is there to see."""

import json
import re
import time
from collections.abc import Callable

import pytest
from pyspark.errors import AnalysisException
from support.spark_topics import SparkTopics

ONE = '{"refusing": {"0": %d}}'


@pytest.fixture(scope="module", autouse=True)
def refusing(topics: SparkTopics) -> None:
    topics.create("refusing")
    topics.numbers("refusing", 0, 10)


def refusal(read: Callable[[], object]) -> str:
    with pytest.raises(AnalysisException) as caught:
        read()
    return str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"colour": "red"}, "there is no option 'colour' for reading a batch"),
        ({"includeHeaders": "perhaps"}, "option includeHeaders is 'perhaps': give true or false"),
        ({"subscribe": "gone"}, "UNKNOWN_TOPIC: there is no topic 'gone'"),
        ({"startingOffsets": '{"refusing": {}}'}, "option startingOffsets says nothing of refusing-0"),
        ({"endingOffsets": ONE % 11}, "refusing-0 [0, 11) is asked for, but there is [0, 10): ask for that, or"),
        ({"startingTimestamp": "tomorrow"}, "give milliseconds since 1970, or a time such as 2026-01-01T00:00Z"),
        ({"startingTimestamp": "999000"}, "refusing-0 has no record of 999000 or later to start at: start earlier"),
    ],
)  # fmt: skip
def test_options_are_refused_when_the_read_is_planned(
    topics: SparkTopics, options: dict[str, str], message: str
) -> None:
    told = refusal(lambda: topics.load("refusing", **options).count())
    assert message in told
    assert "Traceback" not in told


def test_without_a_choice_or_an_address_that_is_said(topics: SparkTopics) -> None:
    assert "which topics?" in refusal(lambda: topics.load().count())
    reader = topics.spark.read.format("lograft").option("subscribe", "refusing")
    assert "where is the cluster?" in refusal(lambda: reader.load().count())
    assert "there is no option 'path'" in refusal(lambda: topics.reader().load("refusing").count())
    assigned = json.dumps({"refusing": [0, 7]})
    assert "'refusing' has no partition 7" in refusal(lambda: topics.load(assign=assigned).count())


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("offset INT", "column 'offset' is of type bigint, not int: cast it after loading"),
        ("value BINARY NOT NULL", "column 'value' may be null: leave NOT NULL out"),
    ],
)
def test_a_schema_that_no_row_has_is_refused(topics: SparkTopics, schema: str, message: str) -> None:
    assert message in refusal(lambda: topics.reader("refusing").schema(schema).load().count())


def test_if_nobody_is_at_the_address_that_is_said_in_time(topics: SparkTopics) -> None:
    options = {"lograft.bootstrap.servers": "127.0.0.1:1", "subscribe": "refusing", "timeoutMs": "2000"}
    frame = topics.spark.read.format("lograft").options(**options).load()
    started = time.monotonic()
    message = refusal(frame.count)
    assert re.search(
        r"127\.0\.0\.1:1: .*check that .* its brokers listen for clients on 127\.0\.0\.1:1,",
        message,
    )
    assert 2 <= time.monotonic() - started < 100, "it waited for the default of two minutes"
