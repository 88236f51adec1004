"""Store events as JSON, then read them back. The key is the user, so the events of a user stay in order. The events are
read as dictionaries, and again as a table without a Python object per record.

python examples/json_events.py localhost:9092
"""

import contextlib
import sys

from lograft import Admin, Consumer, Producer, TopicPartition, errors

EVENTS = "json-events"
USERS = ("ada", "grace", "edsger")


def store(bootstrap: str, count: int) -> None:
    with Admin(bootstrap) as admin, contextlib.suppress(errors.TopicAlreadyExists):
        admin.create_topic(EVENTS, partitions=2)
    with Producer(bootstrap, key_serializer="string", value_serializer="json") as producer:
        deliveries = [
            producer.send(EVENTS, {"user": USERS[number % 3], "number": number}, key=USERS[number % 3])
            for number in range(count)
        ]
        for delivery in deliveries:
            delivery.result(timeout=30)  # an error says whether the record was stored


def read(consumer: Consumer, ends: dict[TopicPartition, int]) -> dict[str, list[int]]:
    """Return the numbers of each user's events, in the order in which they happened."""
    numbers: dict[str, list[int]] = {}
    while any(consumer.position(partition) < end for partition, end in ends.items()):
        try:
            for record in consumer.poll(timeout=1.0):
                numbers.setdefault(record.key, []).append(record.value["number"])
        except errors.DeserializationError as error:
            print(f"skipped: {error}")
            consumer.seek((error.topic, error.partition), error.offset + 1)
    return numbers


def count_rows(consumer: Consumer, ends: dict[TopicPartition, int]) -> int:
    consumer.seek_to_beginning()
    rows = 0
    while any(consumer.position(partition) < end for partition, end in ends.items()):
        rows += consumer.poll_arrow(timeout=1.0).num_rows
    return rows


def main(bootstrap: str) -> None:
    store(bootstrap, 300)
    options = {"key_deserializer": "string", "value_deserializer": "json"}
    with Consumer(bootstrap, auto_offset_reset="earliest", **options) as consumer:
        partitions = consumer.partitions_for(EVENTS)
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        for user, numbers in read(consumer, ends).items():
            print(f"{user}: {len(numbers)} events, in order: {numbers == sorted(numbers)}")
        print(f"{count_rows(consumer, ends)} rows of columns {consumer.poll_arrow(timeout=0).column_names}")


if __name__ == "__main__":
    main(*sys.argv[1:])
