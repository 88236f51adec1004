"""The consumer against real nodes: who stops it, what is not there, and very many partitions."""

import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from time import perf_counter

import pytest
from support.free_ports import free_address
from support.programs import Program

import lograft
from lograft import Admin, Consumer, Producer, TopicPartition, errors
from lograft.testing import TestingCluster, cluster

ORDERS = TopicPartition("orders", 0)


@pytest.fixture(scope="module")
def running() -> Iterator[TestingCluster]:
    with cluster(nodes=1) as running, Admin(running.bootstrap) as admin:
        for topic in ("orders", "stormy", "quiet", "restarted"):
            admin.create_topic(topic, partitions=2)
        yield running


def fill(running: TestingCluster, topic: str, count: int, **options: object) -> None:
    """Records whose values are their offsets, in partition 0."""
    with Producer(running.bootstrap, **options) as producer:  # type: ignore[arg-type]
        producer.send_many(topic, [b"%d" % number for number in range(count)], partition=0)


# -- whoever wants it to stop


def test_another_thread_wakes_a_poll_that_waits(running: TestingCluster) -> None:
    with Consumer(running.bootstrap) as consumer:
        consumer.assign([("quiet", 0)])
        for poll in (consumer.poll, consumer.poll_arrow, lambda: next(consumer)):
            waker = threading.Thread(target=consumer.wakeup)
            waker.start()
            with pytest.raises(errors.WakeupError):
                poll()
            waker.join()
        assert consumer.poll(timeout=0) == []
    with pytest.raises(errors.ClientClosed):
        consumer.poll(timeout=0)


# Interrupted when it waits, and not on its way there.
WAITING = """
import sys, threading, time, traceback
from lograft import ARROW_SCHEMA, Consumer

def tell_when_it_waits(thread_id):
    for _ in range(6000):
        stack = traceback.extract_stack(sys._current_frames()[thread_id])
        if "calls.get()" in stack[-1].line and "loop_thread" in stack[-1].filename:
            print("waiting", flush=True)
            return
        time.sleep(0.01)
    print("never seen to wait, but at", stack[-1], flush=True)

with Consumer(sys.argv[1]) as consumer:
    consumer.assign([("quiet", 1)])
    for poll in (consumer.poll, consumer.poll_arrow, lambda: next(consumer)):
        try:
            threading.Thread(target=tell_when_it_waits, args=[threading.get_ident()]).start()
            poll()
        except KeyboardInterrupt:
            print("interrupted", flush=True)
"""


def test_ctrl_c_ends_a_poll_that_waits(running: TestingCluster) -> None:
    with Program(sys.executable, "-c", WAITING, running.bootstrap, stderr=subprocess.PIPE) as program:
        for _ in range(3):
            assert program.line() == "waiting\n"
            program.interrupt()
            assert program.line() == "interrupted\n"
        _, complaints = program.communicate(timeout=60)
        assert (program.returncode, complaints) == (0, "")


# Interrupted again and again, but only while it waits for the client's thread: there is no telling what an interrupt at
# any other place has kept the consumer from doing.
STORM = """
import linecache, signal, sys
from lograft import ARROW_SCHEMA, Consumer  # Arrow is imported now, and not anew after each interruption

bootstrap, mode, total = sys.argv[1], sys.argv[2], int(sys.argv[3])
interruptions, is_raised = 0, False

def interrupt(number, frame):
    global interruptions, is_raised
    line = frame.f_lineno or 0  # between two lines there is none
    if "calls.get()" in linecache.getline(frame.f_code.co_filename, line) and not is_raised:
        interruptions, is_raised = interruptions + 1, True
        raise KeyboardInterrupt

def poll(consumer):
    if mode == "records":
        return [int(record.value) for record in consumer.poll(timeout=5.0)]
    return [int(value) for value in consumer.poll_arrow(timeout=5.0, max_records=700).column("value").to_pylist()]

with Consumer(bootstrap, auto_offset_reset="earliest", max_poll_records=300, fetch_buffer_bytes=100_000) as consumer:
    consumer.assign([("stormy", 0)])
    expected = 0
    signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.005, 0.005)
    while expected < total or interruptions < 20:
        try:
            if expected >= total:
                consumer.seek(("stormy", 0), 0)
                expected = 0
            values = poll(consumer)
        except KeyboardInterrupt:
            is_raised = False
            continue
        is_raised = False  # or nobody heard of it
        assert values == list(range(expected, expected + len(values))), (expected, values[:3])
        expected += len(values)
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert consumer.poll(timeout=0) == []
    print("all", expected)
"""


@pytest.mark.parametrize("mode", ["records", "arrow"])
def test_ctrl_c_in_polls_that_wait_loses_nothing(running: TestingCluster, mode: str) -> None:
    total = 30_000
    with Consumer(running.bootstrap) as consumer:
        if consumer.end_offsets([("stormy", 0)])["stormy", 0] == 0:  # type: ignore[index]
            fill(running, "stormy", total, batch_bytes=10_000)
    done = subprocess.run(
        [sys.executable, "-c", STORM, running.bootstrap, mode, str(total)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr, done.stdout) == (0, "", f"all {total}\n")


# -- what is not there


def test_addresses_where_no_broker_is_are_named_within_the_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:  # takes connections, and says nothing
        addresses = [free_address(), f"127.0.0.1:{deaf.getsockname()[1]}", "no-such-host.invalid:9092"]
        for address in addresses:
            with Consumer(address, request_timeout_ms=2000) as consumer:
                with pytest.raises((errors.NoBrokerAvailable, errors.TimedOut), match=re.escape(address)):
                    consumer.assign([ORDERS])
                with pytest.raises((errors.NoBrokerAvailable, errors.TimedOut), match=re.escape(address)):
                    consumer.end_offsets([ORDERS])
                with pytest.raises(errors.NotAssigned, match="nothing to read"):
                    consumer.poll(timeout=0.1)


def test_one_good_address_among_bad_ones_is_enough(running: TestingCluster) -> None:
    with Consumer([free_address(), "no-such-host.invalid:9092", running.bootstrap]) as consumer:
        assert len(consumer.partitions_for("orders")) == 2


def test_a_topic_that_is_not_there_is_named(running: TestingCluster) -> None:
    with Consumer(running.bootstrap) as consumer:
        with pytest.raises(errors.UnknownTopic, match="'nonsense'"):
            consumer.assign([("nonsense", 0)])
        with pytest.raises(errors.UnknownPartition, match="no partition 7"):
            consumer.assign([("orders", 7)])
        assert consumer.assignment() == []


def test_a_cluster_that_is_down_is_told_within_the_time_and_followed_when_it_is_up_again(
    running: TestingCluster,
) -> None:
    fill(running, "restarted", 100)
    name = TopicPartition("restarted", 0)
    with Consumer(running.bootstrap, auto_offset_reset="earliest", request_timeout_ms=2000) as consumer:
        consumer.assign([name])
        values = [record.value for _, record in zip(range(60), consumer, strict=False)]
        running.kill(1)
        with pytest.raises(errors.LograftError) as caught:
            consumer.end_offsets([name])
        assert caught.value.retriable
        while len(values) < 100:
            values += [record.value for record in consumer.poll(timeout=1.0)]
        assert consumer.poll(timeout=0.1) == [], "it goes on trying"
        running.restart(1)
        fill(running, "restarted", 100)
        while len(values) < 200:
            values += [record.value for record in consumer.poll(timeout=1.0)]
        assert values == 2 * [b"%d" % number for number in range(100)]
        assert consumer.position(name) == 200


# -- everything at once


def test_every_form_of_a_record_comes_as_it_was_sent(running: TestingCluster) -> None:
    with Producer(running.bootstrap, compression="zstd") as producer:
        producer.send("orders", b'{"a": 1}', key=b"k", partition=0, timestamp=5, headers=[("h", b"1"), ("h", None)])
        producer.send("orders", None, partition=0, timestamp=6)
    with Consumer(running.bootstrap, auto_offset_reset="earliest", value_deserializer="json") as consumer:
        consumer.assign([ORDERS])
        first, second = (next(consumer) for _ in range(2))
        assert first == ("orders", 0, 0, 5, b"k", {"a": 1}, (("h", b"1"), ("h", None)))
        assert second == ("orders", 0, 1, 6, None, None, ())
        assert consumer.lag(ORDERS) == 0
        consumer.seek_to_beginning()
        table = consumer.poll_arrow(timeout=30)
        assert table.schema == lograft.ARROW_SCHEMA
        assert table.column("value").to_pylist() == [b'{"a": 1}', None]
        assert consumer.offsets_for_times({ORDERS: 6}) == {ORDERS: 1}
        figures = consumer.metrics()
        assert (figures.assigned_partitions, figures.current_lag) == (1, {ORDERS: 0})


TOPICS, PARTITIONS = 2, 1000  # `make bench-metadata` has ten thousand


def test_the_metadata_of_thousands_of_partitions_are_no_hindrance(capsys: pytest.CaptureFixture[str]) -> None:
    """How long it takes is told, and decides nothing."""
    names = [TopicPartition("many0", part) for part in range(PARTITIONS)]
    told: list[str] = []

    def lap(what: str) -> None:
        nonlocal started  # type: ignore[misc]
        told.append(f"{what} {perf_counter() - started:.1f} s")
        started = perf_counter()

    with cluster(nodes=1) as running:
        started = perf_counter()
        with Admin(running.bootstrap) as admin:
            for number in range(TOPICS):
                admin.create_topic(f"many{number}", partitions=PARTITIONS, config={"flush.mode": "os"})
            lap("created")
            assert sum(len(topic.partitions) for topic in admin.describe_cluster().topics) == TOPICS * PARTITIONS
            lap("described")
        with Producer(running.bootstrap, max_block_ms=300_000, delivery_timeout_ms=300_000) as producer:
            for topic, partition in names:
                producer.send(topic, b"%d" % partition, partition=partition)
        lap("a record sent to each")
        with Consumer(running.bootstrap, auto_offset_reset="earliest", request_timeout_ms=300_000) as consumer:
            consumer.assign(names)
            lap("assigned")
            found: dict[TopicPartition, bytes | None] = {}
            while len(found) < len(names):
                found |= {(record.topic, record.partition): record.value for record in consumer.poll(timeout=60)}  # type: ignore[misc]
            lap("read")
            assert found == {name: b"%d" % name.partition for name in names}
            assert sum(consumer.end_offsets(names).values()) == len(names)
            lap("ends asked for")
    with capsys.disabled():
        print(f"\n{TOPICS * PARTITIONS} partitions, {len(names)} of them used: {', '.join(told)}")
