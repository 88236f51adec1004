"""What was deleted is an error, or left out. Last by name, so that retention has had its minute."""

import pytest
from pyspark.errors import AnalysisException, PythonException
from support.spark_topics import SparkTopics, TopicsThatAge


def test_what_was_deleted_before_the_read_is_planned_is_refused_or_left_out(
    topics: SparkTopics, aging: TopicsThatAge
) -> None:
    first = aging.wait_until_shrunk()
    options = {"startingOffsets": '{"shrinking": {"0": 0}}'}
    with pytest.raises(AnalysisException, match="set failOnDataLoss to false to read what there is"):
        topics.load("shrinking", **options).count()
    left = topics.rows(topics.load("shrinking", failOnDataLoss=False, **options))
    assert [row.offset for row in left] == list(range(first, aging.RECORDS))
    assert topics.rows(topics.load("shrinking")) == left, "what there is, is no loss"
    gone = {"endingOffsets": '{"shrinking": {"0": 1}}'}
    assert topics.load("shrinking", failOnDataLoss=False, **options, **gone).count() == 0


def test_what_was_deleted_since_the_read_was_planned_is_an_error_or_left_out(
    topics: SparkTopics, aging: TopicsThatAge
) -> None:
    assert aging.counts == {True: aging.RECORDS, False: aging.RECORDS}
    first = aging.wait_until_shrunk()
    with pytest.raises(
        PythonException, match="it was there when the query was planned, and is gone; set failOnDataLoss"
    ):
        aging.planned[True].collect()
    assert [row.offset for row in topics.rows(aging.planned[False])] == list(range(first, aging.RECORDS))


def test_a_topic_that_is_recreated_is_not_read_for_the_one_before(topics: SparkTopics) -> None:
    topics.create("recreated")
    topics.numbers("recreated", 0, 10)
    frame = topics.load("recreated", failOnDataLoss=False)
    assert frame.count() == 10
    topics.admin.delete_topic("recreated")
    topics.admin.wait_for_no_topic("recreated")
    topics.create("recreated")
    topics.numbers("recreated", 100, 120)
    with pytest.raises(PythonException, match="topic 'recreated' is not the one that was looked at"):
        frame.collect()
    assert topics.load("recreated").count() == 20
