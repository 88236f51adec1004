"""Compares the records of a topic with the acknowledgements of its producer."""

from collections import Counter
from dataclasses import dataclass

from steady_load import Acknowledged

from lograft import Consumer, Record


@dataclass(frozen=True, slots=True)
class Comparison:
    """The differences. `records`: all records read. The other fields count acknowledged or read records."""

    records: list[Record]
    lost: int
    twice: int
    elsewhere: int  # at another offset than acknowledged
    out_of_order: int

    @property
    def is_good(self) -> bool:
        return not (self.lost or self.twice or self.elsewhere or self.out_of_order)


def read_all(bootstrap: str, topic: str) -> list[Record]:
    records: list[Record] = []
    with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        partitions = consumer.partitions_for(topic)
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        while any(consumer.position(partition) < end for partition, end in ends.items()):
            records += consumer.poll(timeout=1.0)
    return records


def compare(records: list[Record], acknowledged: list[Acknowledged]) -> Comparison:
    """Check that each acknowledged record exists once, at its offset, and that each partition keeps the send order."""
    numbers = [int((record.value or b"").split()[-1]) for record in records]
    counts = Counter(numbers)
    places = dict(zip(numbers, ((record.partition, record.offset) for record in records), strict=True))
    latest: dict[int, int] = {}
    out_of_order = 0
    for record, number in zip(records, numbers, strict=True):
        out_of_order += number < latest.get(record.partition, -1)
        latest[record.partition] = number
    return Comparison(
        records,
        lost=sum(one.number not in counts for one in acknowledged),
        twice=sum(count > 1 for count in counts.values()),
        elsewhere=sum(
            places.get(one.number, (one.partition, one.offset)) != (one.partition, one.offset) for one in acknowledged
        ),
        out_of_order=out_of_order,
    )
