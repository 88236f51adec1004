"""What a Spark user may say of a streaming query, and what is said of all else."""

import re

import pytest

from lograft.clients.errors import InvalidArgument
from lograft.spark.common.offset_options import EARLIEST, LATEST, EdgeOfAll, TimeOfAll
from lograft.spark.common.options import (
    DEFAULT_DELAY_MS,
    DEFAULT_GROUP_PREFIX,
    StreamOptions,
    stream_options,
)

LEAST = {"lograft.bootstrap.servers": "localhost:9092", "subscribe": "orders"}


def test_a_query_begins_with_what_comes_next_and_takes_all_there_is() -> None:
    reading, limits = stream_options(LEAST)
    assert reading.start == EdgeOfAll(LATEST)
    assert limits == StreamOptions(None, DEFAULT_GROUP_PREFIX, None, None, DEFAULT_DELAY_MS)


def test_all_that_can_be_said() -> None:
    given = {
        **LEAST, "startingtimestamp": "1000", "kafka.group.id": "g", "groupidprefix": "p", "maxoffsetspertrigger": "9",
        "minoffsetspertrigger": "3", "maxtriggerdelay": "10s", "minpartitions": "4", "failondataloss": "false",
    }  # fmt: skip
    reading, limits = stream_options(given)
    assert (reading.start, reading.fail_on_data_loss, reading.split.min_partitions) == (TimeOfAll(1000), False, 4)
    assert limits == StreamOptions("g", "p", 9, 3, 10_000)


@pytest.mark.parametrize(("text", "edge"), [("earliest", EARLIEST), ("latest", LATEST)])
def test_a_query_may_start_at_either_edge(text: str, edge: object) -> None:
    reading, _ = stream_options({**LEAST, "startingoffsets": text})
    assert reading.start == EdgeOfAll(edge)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"endingoffsets": "latest"}, "option endingOffsets is for reading a batch: a streaming query has no end"),
        ({"endingTimestamp": "5"}, "a streaming query has no end"),
        ({"pushdown": "true"}, "option pushDown is for reading a batch"),
        ({"maxoffsetspertrigger": "0"}, "option maxOffsetsPerTrigger is '0'"),
        ({"minoffsetspertrigger": "9", "maxoffsetspertrigger": "8"}, "minOffsetsPerTrigger (9) is more than"),
        ({"maxtriggerdelay": "soon"}, "option maxTriggerDelay: 'soon' is not a duration"),
        ({"topic": "orders"}, "there is no option 'topic' for a streaming query"),
        ({"kafka.group.id": "a", "lograft.group.id": "b"}, "say different things"),
    ],
)
def test_what_cannot_be_is_refused(more: dict[str, str], told: str) -> None:
    with pytest.raises(InvalidArgument, match=re.escape(told)):
        stream_options({**LEAST, **more})
