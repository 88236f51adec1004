"""Store lines of text in a topic, and count the words of all its records.

python examples/word_count.py localhost:9092 < some.txt
"""

import contextlib
import sys
from collections import Counter
from collections.abc import Iterable

from lograft import Admin, Consumer, Producer, errors

LINES = "word-count-lines"


def store(bootstrap: str, lines: Iterable[str]) -> None:
    with Admin(bootstrap) as admin, contextlib.suppress(errors.TopicAlreadyExists):
        admin.create_topic(LINES, partitions=3)
    with Producer(bootstrap, value_serializer="string", linger_ms=20) as producer:
        for line in lines:
            producer.send(LINES, line.rstrip("\n"))


def count(bootstrap: str) -> Counter[str]:
    """Count the words of all lines up to the current end of the topic."""
    words: Counter[str] = Counter()
    with Consumer(bootstrap, auto_offset_reset="earliest", value_deserializer="string") as consumer:
        partitions = consumer.partitions_for(LINES)
        ends = consumer.end_offsets(partitions)
        consumer.assign(partitions)
        while any(consumer.position(partition) < end for partition, end in ends.items()):
            for record in consumer.poll(timeout=1.0):
                words.update(record.value.lower().split())
    return words


def main(bootstrap: str) -> None:
    store(bootstrap, sys.stdin)
    for word, times in count(bootstrap).most_common(10):
        print(f"{times:6} {word}")


if __name__ == "__main__":
    main(*sys.argv[1:])
