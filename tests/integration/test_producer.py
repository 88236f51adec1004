"""The producer against real nodes: what users do wrong, and what goes wrong for them."""

import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from support.free_ports import free_address
from support.programs import Program

from lograft import Admin, Consumer, Delivery, Producer, StoredRange, errors
from lograft.testing import TestingCluster, cluster


@pytest.fixture(scope="module")
def running() -> Iterator[TestingCluster]:
    with cluster(nodes=1) as running, Admin(running.bootstrap) as admin:
        for topic in ("orders", "small", "threads", "interrupted", "forked", "started", "table"):
            config = {"max.message.bytes": "2000"} if topic == "small" else {}
            admin.create_topic(topic, partitions=3, config=config)
        yield running


def values_of(running: TestingCluster, topic: str) -> dict[int, list[bytes | None]]:
    """Of each partition, in order."""
    values: dict[int, list[bytes | None]] = defaultdict(list)
    with Consumer(running.bootstrap, auto_offset_reset="earliest") as consumer:
        partitions = consumer.partitions_for(topic)
        consumer.assign(partitions)
        wanted = sum(consumer.end_offsets(partitions).values())
        while sum(map(len, values.values())) < wanted:
            for record in consumer.poll(timeout=1.0):
                values[record.partition].append(record.value)
    return values


def test_a_record_too_large_for_its_topic_is_refused_and_those_beside_it_are_stored(running: TestingCluster) -> None:
    with Producer(running.bootstrap, linger_ms=200) as producer:
        sizes = (100, 5000, 900, 900, 900)
        deliveries = [producer.send("small", bytes(size), partition=0) for size in sizes]
        error = deliveries[1].exception(30)
        assert isinstance(error, errors.BatchTooLarge)
        assert not error.outcome_unknown
        assert "max.message.bytes" in str(error)
        assert [deliveries[number].result(30).offset for number in (0, 2, 3, 4)] == [0, 1, 2, 3]
        with pytest.raises(errors.BatchTooLarge, match="over the limit"):
            producer.send("small", bytes(100 * 1024 * 1024))


def test_a_topic_or_partition_that_is_not_there_is_named(running: TestingCluster) -> None:
    with Producer(running.bootstrap) as producer:
        assert isinstance(producer.send("nonsense", b"v").exception(30), errors.UnknownTopic)
        mixed = [producer.send("orders", b"v", partition=number) for number in (0, 9, 1)]
        assert "no partition 9" in str(mixed[1].exception(30))
        assert [each.result(30).partition for each in (mixed[0], mixed[2])] == [0, 1]
        many = producer.send_many("nonsense", [b"v"] * 3)
        with pytest.raises(errors.UnknownTopic, match="3 of 3 records"):
            many.result(30)


def test_a_full_buffer_holds_the_sender_back_and_then_refuses_and_nothing_is_lost(running: TestingCluster) -> None:
    with Producer(running.bootstrap, buffer_bytes=100_000, max_block_ms=300) as producer:
        first = producer.send("orders", b"first", partition=2).result(30)
        running.pause(1)
        taken: list[Delivery] = []

        def send_on() -> None:
            while True:
                taken.append(producer.send("orders", b"%03d" % len(taken) + bytes(997), partition=2))

        with pytest.raises(errors.BufferFull, match="100000 bytes stayed full for 300 ms"):
            send_on()
        with pytest.raises(errors.BufferFull, match="larger buffer_bytes"):
            producer.send_many("orders", [bytes(1000)] * 500, partition=2)
        assert producer.metrics().buffer_bytes > 90_000
        assert 50 < len(taken) < 100
        running.resume(1)
        assert [each.result(60).offset for each in taken] == [first.offset + 1 + number for number in range(len(taken))]


def test_a_wrong_address_is_named_in_time() -> None:
    address = free_address()
    with Producer(address, max_block_ms=500) as producer:
        error = producer.send("orders", b"v").exception(30)
        assert isinstance(error, errors.NoBrokerAvailable)
        assert address in str(error)
        assert not error.outcome_unknown
        with pytest.raises(errors.NoBrokerAvailable):
            producer.partitions_for("orders")


def test_records_that_many_threads_send_stay_in_the_order_of_each(running: TestingCluster) -> None:
    threads, rounds = 6, 40

    def send(thread: int, producer: Producer) -> None:
        """One by one, in lists and as Arrow, with a key that keeps them in one partition, and with its number."""
        number = 0
        for turn in range(rounds):
            for _ in range(50):
                producer.send("threads", b"%d %d" % (thread, number), key=b"%d" % thread)
                number += 1
            values = [b"%d %d" % (thread, number + each) for each in range(600)]
            keys = [b"%d" % thread] * 600
            if turn % 2:
                producer.send_many("threads", values, keys=keys)
            else:
                producer.send_many("threads", pa.array(values), keys=pa.array(keys))
            number += 600

    with Producer(running.bootstrap, buffer_bytes=500_000) as producer, ThreadPoolExecutor(threads) as pool:
        for sending in [pool.submit(send, thread, producer) for thread in range(threads)]:
            sending.result(300)
        producer.flush(120)
        assert producer.metrics().records_acknowledged == threads * rounds * 650
    stored = values_of(running, "threads")
    for thread in range(threads):
        (own,) = [
            part
            for part in ([v for v in each if v and v.startswith(b"%d " % thread)] for each in stored.values())
            if part
        ]
        assert own == [b"%d %d" % (thread, number) for number in range(rounds * 650)]


def test_a_large_table_is_stored_whole(running: TestingCluster) -> None:
    count = 100_000
    table = pa.table({"value": [b"%d" % number for number in range(count)], "partition": [0] * count})
    with Producer(running.bootstrap, compression="zstd", buffer_bytes=1_000_000) as producer:
        assert producer.send_many("table", table).result(120) == [StoredRange("table", 0, 0, count)]
    assert values_of(running, "table")[0] == [b"%d" % number for number in range(count)]


FORKING = """
import os, sys, warnings
from lograft import Producer, errors

# Python warns of it since 3.12; what becomes of the child is what is tested.
warnings.filterwarnings("ignore", r"This process .* is multi-threaded, use of fork", DeprecationWarning)
with Producer(sys.argv[1]) as producer:
    producer.send("forked", b"before").result(30)
    process_id = os.fork()
    if process_id == 0:
        send, send_many = lambda: producer.send("forked", b"v"), lambda: producer.send_many("forked", [b"v"])
        for attempt in (send, send_many, producer.flush):
            try:
                attempt()
            except errors.ClientClosed as error:
                print("fork" in str(error), flush=True)
        os._exit(0)
    os.waitpid(process_id, 0)
    producer.send("forked", b"after").result(30)
    print("stored")
"""


def test_a_forked_child_is_told_and_its_parent_goes_on(running: TestingCluster) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKING, running.bootstrap], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.stdout.split(), done.stderr, done.returncode) == (["True", "True", "True", "stored"], "", 0)
    stored = [value for values in values_of(running, "forked").values() for value in values]
    assert sorted(value or b"" for value in stored) == [b"after", b"before"]


STARTING = """
import subprocess, sys
from lograft import Producer

for _ in range(10):
    with Producer(sys.argv[1]) as producer:
        producer.send("started", b"before").result(30)
    for _ in range(3):
        # As pyspark starts its JVM. Without the function, there is no fork that anybody would notice.
        subprocess.run(["true"], preexec_fn=lambda: None, check=True)
print("started")
"""


def test_a_program_that_has_had_a_client_can_start_others(running: TestingCluster) -> None:
    done = subprocess.run(
        [sys.executable, "-c", STARTING, running.bootstrap], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.stdout, done.stderr, done.returncode) == ("started\n", "", 0)


INTERRUPTED = """
import sys
from lograft import Producer

acknowledged = 0
def count(done):
    global acknowledged
    acknowledged += done.exception() is None

try:
    with Producer(sys.argv[1]) as producer:
        number = 0
        while True:
            producer.send("interrupted", b"%d" % number, partition=0).add_done_callback(count)
            number += 1
            if number == 5000:
                print("sending", flush=True)
finally:
    print(acknowledged, flush=True)
"""


@pytest.mark.parametrize("paused", [False, True])
def test_an_interrupt_ends_the_block_at_once_and_what_was_acknowledged_is_stored(
    running: TestingCluster, paused: bool
) -> None:
    before = len(values_of(running, "interrupted")[0])
    with Program(sys.executable, "-c", INTERRUPTED, running.bootstrap, stderr=subprocess.PIPE) as process:
        assert process.line() == "sending\n"
        if paused:
            running.pause(1)  # its buffer is full soon, and nobody answers
        try:
            process.interrupt()
            out, err = process.communicate()
        finally:
            if paused:
                running.resume(1)
    assert err.rstrip().endswith("KeyboardInterrupt"), err
    assert process.returncode in (1, 130, -signal.SIGINT)
    stored = values_of(running, "interrupted")[0][before:]
    assert stored == [b"%d" % number for number in range(len(stored))], "in order, and none twice"
    assert len(stored) >= int(out)


def test_a_cluster_that_is_gone_is_told_in_time_and_what_may_be_stored(running: TestingCluster) -> None:
    """The last of these: the node stays down."""
    with Producer(running.bootstrap, delivery_timeout_ms=3000) as producer:
        producer.send("orders", b"v", partition=0).result(30)
        running.kill(1)
        error = producer.send("orders", b"v", partition=0).exception(60)
        assert isinstance(error, errors.DeliveryTimedOut)
        assert "not acknowledged within 3000 ms" in str(error)
        assert "broker 1" in str(error)
    with Producer(running.bootstrap, max_block_ms=500) as producer:
        error = producer.send("orders", b"v").exception(60)
        assert isinstance(error, errors.NoBrokerAvailable)
        assert all(address in str(error) for address in running.bootstrap.split(","))
