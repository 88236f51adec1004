"""Read prices in euros, convert them, and write them to another topic. Several instances share the work.

python examples/consume_transform_produce.py localhost:9092 prices-eur prices-usd

Offsets are committed once the converted records are stored. So no record is lost if the program is interrupted: it
resumes from the committed offsets, and at worst converts the last few records twice. It ends after three idle seconds.
"""

import sys

from lograft import Consumer, Producer, RebalanceListener, TopicPartition

DOLLARS_A_EURO = 1.08
IDLE_SECONDS = 3


class Announce(RebalanceListener):
    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        print("assigned:", *(partition.partition for partition in partitions), flush=True)

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        print("revoked:", *(partition.partition for partition in partitions), flush=True)


def main(bootstrap: str, source: str, target: str) -> None:
    with (
        Producer(bootstrap, compression="lz4", linger_ms=5) as producer,
        Consumer(bootstrap, group="to-dollars", auto_offset_reset="earliest", auto_commit=False) as consumer,
    ):
        consumer.subscribe([source], Announce())
        while records := consumer.poll(timeout=IDLE_SECONDS):
            deliveries = [
                producer.send(target, b"%.2f" % (float(record.value) * DOLLARS_A_EURO), key=record.key)
                for record in records
            ]
            for delivery in deliveries:
                delivery.result()
            consumer.commit()
            print("converted", len(records), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
