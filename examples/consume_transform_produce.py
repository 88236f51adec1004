"""Reads prices in euros, converts them, and writes them to another topic; any number of these share the work.

python examples/consume_transform_produce.py localhost:9092 prices-eur prices-usd

What was read is committed once what came of it is stored. So nothing is lost, whatever stops this program: it goes on
where it was, and at worst converts the last few records twice. It ends once there was nothing to do for three seconds.
"""

import sys

from lograft import Consumer, Producer, RebalanceListener, TopicPartition

DOLLARS_A_EURO = 1.08
IDLE_SECONDS = 3


class Announce(RebalanceListener):
    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        print("mine now:", *(partition.partition for partition in partitions), flush=True)

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        print("given up:", *(partition.partition for partition in partitions), flush=True)


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
