"""The clients for ordinary functions: many threads, one loop, and nothing that waits for ever."""

import asyncio
import gc
import itertools
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from queue import SimpleQueue
from types import FrameType
from typing import Any

import pytest
from support.fake_log_service import FakeCluster
from support.free_ports import free_address

import lograft
from lograft import Consumer, Producer, TopicPartition, errors
from lograft.runtime.production.client_runtime import client_runtime, close_client_runtime
from lograft.runtime.tasks import loop_thread
from lograft.runtime.tasks.loop_handover import LoopHandover
from lograft.runtime.tasks.loop_thread import LoopLost, LoopThread, shared_loop

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    """On the loop of the clients themselves, over gRPC."""
    loop = shared_loop()

    async def start() -> FakeCluster:
        addresses = {number: free_address() for number in (1, 2)}
        cluster = FakeCluster(runtime=client_runtime(), addresses=addresses)
        await cluster.start()
        cluster.create_topic("orders", [1, 2])
        return cluster

    async def stop(cluster: FakeCluster) -> None:
        await cluster.stop()
        assert cluster.runtime is not None
        await close_client_runtime(cluster.runtime)

    made = loop.run(start)
    yield made
    loop.run(stop, made)


def test_the_example_of_the_documents(cluster: FakeCluster) -> None:
    with Producer(cluster.bootstrap, acks="all", compression="lz4", linger_ms=5) as producer:
        delivery = producer.send("orders", b"value", key=b"k", headers=[("trace", b"1")], partition=0)
        assert delivery.result(timeout=10)[:3] == ("orders", 0, 0)
        producer.send("orders", b"another", partition=0)
        producer.flush()
    with Consumer(",".join(cluster.bootstrap), auto_offset_reset="earliest") as consumer:
        consumer.assign([ORDERS])
        records = []
        for record in consumer:
            records.append(record)
            if len(records) == 2:
                break
        assert [record.value for record in records] == [b"value", b"another"]
        assert records[0].headers == (("trace", b"1"),)
        assert consumer.poll(timeout=0.05) == []
        assert consumer.position(ORDERS) == 2
        consumer.seek(ORDERS, 1)
        assert [record.offset for record in consumer.poll(timeout=10)] == [1]
        assert consumer.end_offsets([ORDERS]) == {ORDERS: 2}
        assert consumer.partitions_for("orders") == [ORDERS, TopicPartition("orders", 1)]
        assert consumer.assignment() == [ORDERS]


def test_whoever_stops_iterating_goes_on_behind_the_last_record_that_was_given(cluster: FakeCluster) -> None:
    with Producer(cluster.bootstrap) as producer:
        for number in range(20):
            producer.send("orders", b"%d" % number, partition=0)
    with Consumer(cluster.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([ORDERS])
        offsets = []
        for record in consumer:
            offsets.append(record.offset)
            if len(offsets) == 3:
                break
        offsets.append(next(consumer).offset)
        assert consumer.position(ORDERS) == 4
        offsets += [record.offset for record in consumer.poll(timeout=10, max_records=2)]
        for record in consumer:
            offsets.append(record.offset)
            if record.offset == 19:
                break
        assert offsets == list(range(20))
        consumer.seek(ORDERS, 5)
        assert next(consumer).offset == 5
        consumer.seek(ORDERS, 3)
        assert next(consumer).offset == 3


def test_many_threads_may_send_and_each_ones_records_stay_in_order(cluster: FakeCluster) -> None:
    with Producer(cluster.bootstrap, batch_bytes=2000) as producer, ThreadPoolExecutor(4) as pool:

        def send(thread: int) -> None:
            for number in range(500):
                producer.send("orders", b"%d-%d" % (thread, number), partition=0)

        list(pool.map(send, range(4)))
        producer.flush(timeout=30)
    values = [value for value in cluster.log("orders").values if value is not None]
    assert len(values) == 2000
    for thread in range(4):
        mine = [value for value in values if value.startswith(b"%d-" % thread)]
        assert mine == [b"%d-%d" % (thread, number) for number in range(500)]


def test_leaving_the_block_delivers_what_was_sent(cluster: FakeCluster) -> None:
    with Producer(cluster.bootstrap, linger_ms=60_000) as producer:
        delivery = producer.send("orders", b"v", partition=1)
        assert not delivery.done()
    assert delivery.done()
    assert delivery.result().partition == 1
    with pytest.raises(errors.ClientClosed):
        producer.send("orders", b"too late")


def test_callbacks_run_once_the_fate_is_known_and_may_be_added_at_any_time(cluster: FakeCluster) -> None:
    told: list[int] = []
    with Producer(cluster.bootstrap) as producer:
        delivery = producer.send("orders", b"v", partition=0)
        delivery.add_done_callback(lambda done: told.append(done.result().offset))
        delivery.result(timeout=10)
        late = threading.Event()
        delivery.add_done_callback(lambda done: late.set())
        assert late.wait(10)
    assert told == [0]


def test_a_callback_that_may_not_close_the_producer_leaves_it_to_be_flushed_at_exit(cluster: FakeCluster) -> None:
    with Producer(cluster.bootstrap) as producer:
        refused: SimpleQueue[str] = SimpleQueue()

        def close(_: object) -> None:
            try:
                producer.close()
            except RuntimeError as error:
                refused.put(str(error))

        producer.send("orders", b"v", partition=0).add_done_callback(close)
        assert "callback" in refused.get(timeout=10)
        assert producer._backlog._flush_at_exit in producer._loop._last_wishes
        assert producer.send("orders", b"v", partition=0).result(timeout=10).offset == 1


def test_an_error_is_the_deliverys_or_the_calls(cluster: FakeCluster) -> None:
    with Producer(cluster.bootstrap) as producer:
        delivery = producer.send("nonsense", b"v")
        assert isinstance(delivery.exception(timeout=10), errors.UnknownTopic)
        with pytest.raises(errors.UnknownTopic, match="nonsense"):
            delivery.result()
        failed = threading.Event()
        delivery.add_done_callback(lambda done: failed.set())
        assert failed.wait(10)
        with pytest.raises(errors.InvalidArgument, match="value is of type str"):
            producer.send("orders", "text")
        with pytest.raises(errors.InvalidArgument, match="timestamp"):
            producer.send("orders", b"v", timestamp=-1)
        with pytest.raises(errors.UnknownTopic):
            producer.partitions_for("nonsense")
    with Consumer(cluster.bootstrap) as consumer, pytest.raises(errors.UnknownTopic):
        consumer.assign([("nonsense", 0)])


def test_waiting_for_a_result_ends_with_its_timeout(cluster: FakeCluster) -> None:
    with Producer(cluster.bootstrap) as producer:
        producer.send("orders", b"0", partition=0).result(timeout=10)
        cluster.brokers[1].answers.clear()
        delivery = producer.send("orders", b"1", partition=0)
        with pytest.raises(TimeoutError):
            delivery.result(timeout=0.05)
        with pytest.raises(errors.TimedOut):
            producer.flush(timeout=0.05)
        shared_loop().post(cluster.brokers[1].answers.set)
        assert delivery.result(timeout=10).offset == 1


def test_a_full_buffer_blocks_the_sender_and_then_refuses(cluster: FakeCluster) -> None:
    with Producer(cluster.bootstrap, buffer_bytes=3000, max_block_ms=100) as producer:
        producer.send("orders", b"0", partition=0).result(timeout=10)
        cluster.brokers[1].answers.clear()
        for _ in range(2):
            producer.send("orders", bytes(1000), partition=0)
        with pytest.raises(errors.BufferFull, match="3000 bytes"):
            producer.send("orders", bytes(1000), partition=0)
        shared_loop().post(cluster.brokers[1].answers.set)
        producer.flush(timeout=10)
        assert producer.send("orders", bytes(1000), partition=0).result(timeout=10).offset == 3


def test_closing_without_time_fails_what_is_left(cluster: FakeCluster) -> None:
    producer = Producer(cluster.bootstrap)
    producer.send("orders", b"0", partition=0).result(timeout=10)
    cluster.brokers[1].answers.clear()
    delivery = producer.send("orders", b"1", partition=0)
    producer.close(timeout=0.05)
    producer.close()
    error = delivery.exception(timeout=1)
    assert isinstance(error, errors.ClientClosed)


def test_closing_fails_what_was_not_even_handed_on() -> None:
    producer = Producer(free_address())
    deliveries = [producer.send("orders", b"v") for _ in range(3)]
    producer.close(timeout=0.05)
    assert [type(delivery.exception(timeout=1)) for delivery in deliveries] == [errors.ClientClosed] * 3


def test_a_bug_of_ours_is_told_to_whoever_sends_and_leaves_nobody_waiting(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    with Producer(cluster.bootstrap) as producer:
        monkeypatch.setattr(producer._backlog.inner._router, "place", fail)
        delivery = producer.send("orders", b"v")
        assert isinstance(delivery.exception(timeout=10), errors.Internal)
        with pytest.raises(errors.LograftError):
            producer.flush(timeout=10)
        with pytest.raises(errors.ClientClosed):
            producer.send("orders", b"v")
    assert not producer._backlog.inner._task.is_running, "all of it has ended"


def test_nobody_there_is_told_within_the_time() -> None:
    address = free_address()
    with Producer(address, max_block_ms=200) as producer:
        error = producer.send("orders", b"v").exception(timeout=10)
        assert isinstance(error, errors.NoBrokerAvailable)
        assert address in str(error)
    with Consumer(address, request_timeout_ms=200) as consumer, pytest.raises(errors.NoBrokerAvailable):
        consumer.assign([ORDERS])
    with Consumer(address, group="billing", request_timeout_ms=200) as consumer:
        consumer.subscribe(["orders"])
        assert consumer.subscription() == ["orders"]
        with pytest.raises(errors.NoBrokerAvailable, match=address):
            consumer.poll(10)


def run_program(text: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", text, *arguments], capture_output=True, text=True, timeout=60, check=False
    )


FORKING = """
import os, warnings
from lograft import Consumer, Producer, errors

def attempt(what, call):
    try:
        call()
    except errors.ClientClosed as error:
        print(what, "fork" in str(error), flush=True)

# Python warns of it since 3.12; what becomes of the child is what is tested.
warnings.filterwarnings("ignore", r"This process .* is multi-threaded, use of fork", DeprecationWarning)
producer = Producer("127.0.0.1:1", max_block_ms=100)
process_id = os.fork()
if process_id == 0:
    attempt("send", lambda: producer.send("orders", b"v"))
    attempt("send again", lambda: producer.send("orders", b"v"))
    attempt("flush", producer.flush)
    attempt("another producer", lambda: Producer("127.0.0.1:1"))
    attempt("a consumer", lambda: Consumer("127.0.0.1:1"))
else:
    print("child", os.waitpid(process_id, 0)[1])
    print(type(producer.send("orders", b"v").exception(10)).__name__)
    producer.close()
"""


def test_a_forked_child_is_told_that_it_has_no_client_and_can_have_none() -> None:
    """gRPC hangs there, or brings the process down."""
    result = run_program(FORKING)
    assert result.stderr == ""
    assert result.stdout.splitlines() == [
        "send True",
        "send again True",
        "flush True",
        "another producer True",
        "a consumer True",
        "child 0",
        "NoBrokerAvailable",
    ]


FORGETFUL = """
import sys
import lograft.clients.producer.sync_producer
from lograft import Producer
bootstrap, compression, patience = sys.argv[1:]
lograft.clients.producer.backlog._EXIT_SECONDS = float(patience)
producer = Producer(bootstrap, compression=compression, linger_ms=60_000)
for number in range(100):
    producer.send("orders", b"%d" % number, partition=0)
"""


@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_a_program_that_ends_without_closing_delivers_what_it_sent(cluster: FakeCluster, compression: str) -> None:
    result = run_program(FORGETFUL, ",".join(cluster.bootstrap), compression, "60")
    assert (result.returncode, result.stderr) == (0, "")
    assert cluster.log("orders").values == [b"%d" % number for number in range(100)]


def test_a_program_that_ends_before_its_records_are_acknowledged_says_so(cluster: FakeCluster) -> None:
    for broker in cluster.brokers.values():
        broker.answers.clear()
    result = run_program(FORGETFUL, ",".join(cluster.bootstrap), "none", "0.2")
    assert result.returncode == 0
    assert result.stderr.startswith("lograft: 100 records were not acknowledged")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"topic": 5}, "topic is 5"),
        ({"topic": "\udcff"}, "topic is"),
        ({"partition": "0"}, "partition is '0'"),
        ({"partition": 0.0}, "partition is 0.0"),
    ],
)
def test_a_place_that_cannot_be_is_refused_and_the_producer_goes_on(
    cluster: FakeCluster, arguments: dict[str, object], complaint: str
) -> None:
    with Producer(cluster.bootstrap) as producer:
        with pytest.raises(errors.InvalidArgument, match=complaint):
            producer.send(**{"topic": "orders", "value": b"v", **arguments})  # type: ignore[arg-type]
        assert producer.send("orders", b"v", partition=0).result(timeout=10).offset == 0


def test_a_partitioner_that_fails_fails_the_record_and_nothing_else(cluster: FakeCluster) -> None:
    def choose(topic: str, key: bytes | None, value: bytes | None, count: int) -> int:
        assert value is not None
        return {b"text": "1", b"far": 9}.get(value) or int(value)  # type: ignore[return-value]

    with Producer(cluster.bootstrap, partitioner=choose) as producer:
        deliveries = [producer.send("orders", value) for value in (b"nonsense", b"far", b"text", b"0")]
        producer.flush(timeout=10)
        complaints = [str(delivery.exception()) for delivery in deliveries[:3]]
        assert "ValueError" in complaints[0]
        assert "chose 9" in complaints[1]
        assert "chose '1'" in complaints[2]
        assert deliveries[3].result().partition == 0


def test_a_flush_waits_for_what_another_thread_is_about_to_hand_over(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One thread tells the loop for all that put something there meanwhile; it may not have come to it yet."""
    with Producer(cluster.bootstrap) as producer:
        with monkeypatch.context() as patch:
            patch.setattr(producer._loop, "post", lambda *_: None)
            deliveries = [producer.send("orders", b"v", partition=0) for _ in range(2)]
        producer.flush(timeout=10)
        assert [delivery.done() for delivery in deliveries] == [True, True]


def test_closing_ends_the_wait_of_who_waits_for_room(cluster: FakeCluster) -> None:
    producer = Producer(cluster.bootstrap, buffer_bytes=1000)
    producer.send("orders", b"0", partition=0).result(timeout=10)
    cluster.brokers[1].answers.clear()
    held = producer.send("orders", bytes(900), partition=0)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(producer.send, "orders", bytes(900), partition=0)
        assert not waiting.done()
        producer.close(timeout=0.05)
        assert isinstance(waiting.exception(10), errors.ClientClosed)
    assert isinstance(held.exception(1), errors.ClientClosed)


def test_the_public_face_has_all_that_is_promised() -> None:
    for name in ("Producer", "Consumer", "Admin", "Record", "RecordMetadata", "TopicPartition", "aio", "errors"):
        assert getattr(lograft, name) is not None
        assert name in dir(lograft)
    assert lograft.aio.Producer is not lograft.Producer
    with pytest.raises(AttributeError, match="nonsense"):
        _ = lograft.nonsense


# -- the loop's thread


def test_a_loop_runs_coroutines_and_passes_on_what_they_raise() -> None:
    loop = LoopThread("test")

    async def fail() -> None:
        raise KeyError("a")

    async def answer() -> int:
        assert threading.current_thread().name == "test"
        return 42

    assert loop.run(answer) == 42
    with pytest.raises(KeyError):
        loop.run(fail)
    loop.stop()
    assert not loop.is_alive
    with pytest.raises(LoopLost, match="ending"):
        loop.run(answer)


def test_ctrl_c_at_any_line_leaves_no_coroutine_that_nobody_awaits() -> None:
    loop = LoopThread("test")
    awaited: list[int] = []

    async def answer(number: int) -> int:
        awaited.append(number)
        await asyncio.sleep(0.005)  # so that it is waited for
        return number

    interrupted = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        unraisable: list[object] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "unraisablehook", unraisable.append)
            for line in itertools.count(1):
                try:
                    with _interrupted_at(line):
                        assert loop.run(answer, line) == line
                except KeyboardInterrupt:
                    interrupted += 1
                    gc.collect()
                else:
                    break
    assert not unraisable
    assert interrupted > 5
    assert awaited[-1] == loop.run(answer, line) == line
    loop.stop()


@contextmanager
def _interrupted_at(line: int) -> Iterator[None]:
    """Ctrl+C, at that line of those that this thread does in the loop's module, or waiting for a `Condition`."""
    left = line

    def trace(frame: FrameType, event: str, _: object) -> Callable[..., Any] | None:
        nonlocal left
        if frame.f_code.co_filename != loop_thread.__file__ and frame.f_code is not threading.Condition.wait.__code__:
            return trace  # what it calls may be
        if event == "line":
            left -= 1
            if left == 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    former = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(former)


def test_what_is_begun_goes_on_by_itself_until_somebody_cancels_it() -> None:
    loop = LoopThread("test")
    ended = threading.Event()

    async def echo(number: int) -> int:
        return number

    async def for_ever(begun: threading.Event) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    assert loop.begin(echo, 42).result(60) == 42
    begun = threading.Event()
    future = loop.begin(for_ever, begun)
    assert begun.wait(60)
    assert not ended.is_set()
    assert future.cancel()
    assert ended.wait(60)
    loop.stop()


def test_a_callback_that_would_wait_for_its_own_thread_is_refused() -> None:
    loop = LoopThread("test")
    failures: list[BaseException] = []

    async def answer() -> int:
        return 42

    def call() -> None:
        try:
            loop.run(answer)
        except RuntimeError as error:
            failures.append(error)

    async def settle() -> None:
        call()

    loop.run(settle)
    assert "callback" in str(failures[0])
    loop.stop()


def test_what_is_announced_is_taken_once_for_all_that_came_meanwhile() -> None:
    loop = LoopThread("test")
    left: list[int] = []
    taken: list[list[int]] = []
    all_taken = threading.Event()

    def take() -> None:
        taken.append(left[:])
        left.clear()
        all_taken.set()

    handover = LoopHandover(loop, take)
    with handover.lock:
        for number in range(3):
            left.append(number)
            handover.announce()
    assert all_taken.wait(10)
    assert taken == [[0, 1, 2]]
    with handover.lock:
        left.append(3)
        handover.announce()
    loop.run(nothing)
    assert taken == [[0, 1, 2], [3]]
    loop.stop()


def test_who_waits_for_room_is_told_of_it_or_gives_up_in_time() -> None:
    loop = LoopThread("test")
    free = threading.Event()
    handover = LoopHandover(loop, lambda: None)

    def wait(timeout_seconds: float) -> bool:
        with handover.lock:
            return handover.wait_for_room(free.is_set, timeout_seconds)

    assert not wait(0.01)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(wait, 60)
        free.set()
        while not waiting.done():
            handover.made_room()
        assert waiting.result()
    loop.stop()


def test_a_callback_on_the_loop_does_not_wait_for_room_that_only_it_could_make() -> None:
    loop = LoopThread("test")
    handover = LoopHandover(loop, lambda: None)

    async def wait() -> bool:
        with handover.lock:
            return handover.wait_for_room(lambda: False, 3600)

    assert loop.run(wait) is False
    loop.stop()


async def nothing() -> None:
    pass


def test_last_wishes_are_granted_before_the_loop_stops() -> None:
    loop = LoopThread("test")
    granted: list[int] = []

    async def answer() -> int:
        return 42

    loop.before_stop(lambda: granted.append(loop.run(answer)))
    taken_back = lambda: granted.append(0)  # noqa: E731
    loop.before_stop(taken_back)
    loop.take_back(taken_back)
    loop.stop()
    assert granted == [42]
