"""How long a record takes from `send` to whoever waits for it: end to end, one at a time.

Ours alone: mock brokers answer whoever waits for records by the clock, not when there are some.
"""

from statistics import median
from time import perf_counter

from client_ceiling import Ceiling
from client_trials import Bench, Records
from measure import Result, percentile

from lograft import Consumer, Producer, TopicPartition

_RECORDS = 300
_WARM_UP = 50


async def measure_latency(bench: Bench, _: Ceiling, records: Records) -> list[Result]:
    """Of each round the percentiles, and of those the medians over rounds."""
    value = records.values[0]
    results: list[Result] = []
    for replicas in (1, 3):
        samples = [_ours(bench, value, replicas) for _ in range(bench.rounds)]
        results += _lines(records.size, f"lograft, RF {replicas}", samples)
    return results


def _lines(size: str, name: str, rounds: list[list[float]]) -> list[Result]:
    return [
        Result(
            f"end to end, {size}",
            f"{name}, p{round(share * 100)}",
            median(percentile(samples, share) for samples in rounds) * 1000,
            "ms",
        )
        for share in (0.5, 0.99)
    ]


def _ours(bench: Bench, value: bytes, replicas: int) -> list[float]:
    samples = []
    with (
        bench.topic(replicas) as topic,
        Producer(bench.bootstrap) as producer,
        Consumer(bench.bootstrap, auto_offset_reset="earliest") as consumer,
    ):
        consumer.assign([TopicPartition(topic, 0)])
        for _ in range(_WARM_UP + _RECORDS):
            started = perf_counter()
            producer.send(topic, value, partition=0)
            while not consumer.poll(timeout=10):
                pass
            samples.append(perf_counter() - started)
    return samples[_WARM_UP:]
