"""How fast records are produced: each by itself, in lists, in Arrow arrays; until the last is acknowledged."""

from collections.abc import Callable
from functools import partial

import client_ceiling
from client_ceiling import Ceiling
from client_trials import Bench, Records, Trial, compare, timed
from measure import Result

from lograft import Producer

BASELINE = "confluent-kafka, produce with on_delivery"
"""Each record's fate is told, as ours is."""

_UNTOLD = "confluent-kafka, produce, fates not told"
_AIMS = {"send": 0.8, "send_many, lists": 2.5, "send_many, Arrow": 5.0}


def _send(producer: Producer, topic: str, records: Records) -> None:
    send = producer.send
    for value in records.values:
        send(topic, value)


def _send_lists(producer: Producer, topic: str, records: Records) -> None:
    producer.send_many(topic, records.values)


def _send_arrow(producer: Producer, topic: str, records: Records) -> None:
    producer.send_many(topic, records.arrow)


_WAYS: dict[str, Callable[[Producer, str, Records], None]] = {
    "send": _send,
    "send_many, lists": _send_lists,
    "send_many, Arrow": _send_arrow,
}


async def measure_producing(bench: Bench, ceiling: Ceiling, records: Records) -> list[Result]:
    """Against mock brokers that share the client's process and keep nothing; ours are real, write, and replicate."""
    count = records.count
    contenders: dict[str, Callable[[], Trial]] = {
        BASELINE: lambda: timed(count, lambda: bench.confluent.produce_with_fates(records.values)),
        _UNTOLD: lambda: timed(count, lambda: bench.confluent.produce(records.values)),
        client_ceiling.NAME: lambda: ceiling.sending(records),
    }
    aims = {}
    for replicas in (1, 3):
        for name, way in _WAYS.items():
            contenders[f"{name}, RF {replicas}"] = partial(_trial, bench, records, replicas, way)
            aims[f"{name}, RF {replicas}"] = _AIMS[name]
    return await compare(bench, contenders, BASELINE, aims, records.size, "producing")


def _trial(bench: Bench, records: Records, replicas: int, way: Callable[[Producer, str, Records], None]) -> Trial:
    with bench.topic(replicas) as topic, Producer(bench.bootstrap) as producer:
        for partition in range(producer.partitions_for(topic)):
            producer.send(topic, b"", partition=partition).result(60)  # leaders are there, and connections

        def work() -> None:
            way(producer, topic, records)
            producer.flush()

        return timed(records.count, work)
