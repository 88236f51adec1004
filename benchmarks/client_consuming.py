"""How fast records are consumed: in lists, one by one, as Arrow tables; from the beginning to the end of a topic."""

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import client_ceiling
from client_ceiling import Ceiling
from client_trials import Bench, Records, Trial, compare, timed
from confluent import PARTITIONS
from measure import Result

from lograft import Consumer, Producer

BASELINE = "confluent-kafka, consume"
"""500 at a time, the best it can do: with 5,000, or one by one, it takes half as much processor time again; how much it
fetches at once, and how long it waits, make no difference."""

_ONE_BY_ONE = "confluent-kafka, poll, one by one"
_AIMS = {"poll": 1.0, "iteration": 1.0, "poll_arrow": 5.0}
_POLL_RECORDS = 500


def _poll(consumer: Consumer, count: int) -> None:
    while count > 0:
        count -= len(consumer.poll(timeout=10, max_records=_POLL_RECORDS))


def _iterate(consumer: Consumer, count: int) -> None:
    for _ in consumer:
        count -= 1
        if count == 0:
            return


def _poll_arrow(consumer: Consumer, count: int) -> None:
    while count > 0:
        count -= consumer.poll_arrow(timeout=10).num_rows


_WAYS: dict[str, Callable[[Consumer, int], None]] = {"poll": _poll, "iteration": _iterate, "poll_arrow": _poll_arrow}


async def measure_consuming(bench: Bench, ceiling: Ceiling, records: Records) -> list[Result]:
    """Theirs from the memory of its own process, ours from a broker's."""
    their_topics, their_count = bench.confluent.fill(records.values)
    contenders: dict[str, Callable[[], Trial]] = {
        BASELINE: partial(_their_trial, bench, their_topics, their_count, _consume),
        _ONE_BY_ONE: partial(_their_trial, bench, their_topics, their_count, _poll_theirs),
        client_ceiling.NAME: lambda: ceiling.receiving(records),
    }
    with bench.topic(1) as topic:
        with Producer(bench.bootstrap) as producer:
            for partition, values in enumerate(_dealt(records.arrow)):
                producer.send_many(topic, values, partition=partition)
        for name, way in _WAYS.items():
            contenders[name] = partial(_trial, bench, topic, records.count, way)
        return await compare(bench, contenders, BASELINE, _AIMS, records.size, "consuming")


def _dealt(values: Any) -> list[Any]:
    """As evenly over partitions as theirs are."""
    starts = [len(values) * number // PARTITIONS for number in range(PARTITIONS + 1)]
    return [values[start:end] for start, end in pairwise(starts)]


def _trial(bench: Bench, topic: str, count: int, way: Callable[[Consumer, int], None]) -> Trial:
    with Consumer(bench.bootstrap, auto_offset_reset="earliest", max_poll_records=_POLL_RECORDS) as consumer:
        consumer.assign(consumer.partitions_for(topic))
        return timed(count, lambda: way(consumer, count))


# What ours does unasked: see to it that each is a record, and have its value.


def _consume(consumer: Any, count: int) -> None:
    while count > 0:
        messages = consumer.consume(min(_POLL_RECORDS, count), timeout=10)  # which waits for that many
        count -= sum(message.error() is None and message.value() is not None for message in messages)


def _poll_theirs(consumer: Any, count: int) -> None:
    while count > 0:
        message = consumer.poll(10)
        count -= message is not None and message.error() is None and message.value() is not None


def _their_trial(bench: Bench, topics: list[str], count: int, way: Callable[[Any, int], None]) -> Trial:
    consumer = bench.confluent.consumer(topics)
    try:
        return timed(count, lambda: way(consumer, count))
    finally:
        consumer.close()
