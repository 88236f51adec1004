"""What Spark's driver and tasks do for a write that is seen once, without Spark: real brokers, and drivers that die,
come back, and are not as dead as was thought."""

import asyncio
import threading
import zlib
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count, islice
from typing import Any

import pyarrow as pa
import pytest
from support.server_processes import until

from lograft import Admin, Consumer, Producer, errors, testing
from lograft.clients.admin.model.types import ConfigKind
from lograft.clients.types import TopicPartition
from lograft.runtime.clock import Clock
from lograft.spark.common.cluster_access import cluster_access
from lograft.spark.common.options import ClusterOptions
from lograft.spark.writing import exactly_once
from lograft.spark.writing import publisher as publishing
from lograft.spark.writing.commit_ledger import Decision, Ledger, Share
from lograft.spark.writing.exactly_once import commit_staged
from lograft.spark.writing.staged_batches import Target
from lograft.spark.writing.staged_rows import Staged, ensure_topics, stage_rows
from lograft.spark.writing.write_options import LEDGER_PARTITIONS, LEDGER_TOPIC, STAGED_TOPIC, WriteOptions

_names = count()


class DriverDied(Exception):
    """In a test."""


def die(*_: object, **__: object) -> None:
    raise DriverDied


@pytest.fixture(scope="module")
def cluster() -> Iterator[testing.TestingCluster]:
    with testing.cluster(nodes=3) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def admin(cluster: testing.TestingCluster) -> Iterator[Admin]:
    with Admin(cluster.bootstrap) as admin:
        yield admin


@pytest.fixture
def query(cluster: testing.TestingCluster, admin: Admin) -> "Query":
    return Query(cluster.bootstrap, admin)


class Query:
    """A streaming query that writes to a topic of its own."""

    def __init__(self, bootstrap: str, admin: Admin) -> None:
        number = next(_names)
        self.admin = admin
        self.id = f"query-{number}"
        self.topic = f"results-{number}"
        self.cluster = ClusterOptions(bootstrap, timeout_ms=30_000)
        self.options = WriteOptions(self.cluster, self.topic, "lz4", "all", True)
        admin.create_topic(self.topic, partitions=3, replicas=3)
        admin.wait_for_topic(self.topic)

    def stage(self, *values: bytes, task: int = 0) -> Staged:
        keys = [b"k%d" % (number % 5) for number in range(len(values))]
        batch = pa.record_batch({"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())})
        return stage_rows(iter([batch]), self.options, self.id, task)

    def stage_numbers(self, first: int, end: int, task: int = 0, attempt: str = "") -> Staged:
        return self.stage(*(f"{attempt}{number}".encode() for number in range(first, end)), task=task)

    def commit(self, batch_id: int, *messages: Staged) -> None:
        commit_staged(messages, batch_id, self.cluster)

    def stored(self) -> Counter[bytes | None]:
        return Counter(self.values())

    def values(self) -> list[bytes | None]:
        """Of all partitions, in the order of each."""
        with Consumer(self.cluster.bootstrap, auto_offset_reset="earliest") as consumer:
            partitions = consumer.partitions_for(self.topic)
            consumer.assign(partitions)
            ends = consumer.end_offsets(partitions)
            values: list[bytes | None] = []

            def all_read() -> bool:
                values.extend(record.value for record in consumer.poll(0.1))
                return all(consumer.position(each) >= end for each, end in ends.items())

            until(all_read, "all is read")
            return values


def numbers(first: int, end: int, attempt: str = "") -> Counter[bytes | None]:
    return Counter(f"{attempt}{number}".encode() for number in range(first, end))


def test_nothing_is_seen_before_the_commit_and_all_of_it_afterwards(query: Query) -> None:
    messages = [query.stage_numbers(0, 500, task=0), query.stage_numbers(500, 1000, task=1), query.stage(task=2)]
    assert query.stored() == Counter()
    query.commit(0, *messages)
    assert query.stored() == numbers(0, 1000)


def test_rows_of_one_key_keep_their_order(query: Query) -> None:
    query.commit(0, query.stage_numbers(0, 1000))
    of_one_key = [int(value or b"") for value in query.values() if int(value or b"") % 5 == 3]
    assert of_one_key == sorted(of_one_key)
    assert len(of_one_key) == 200


def test_batches_follow_one_another(query: Query) -> None:
    for batch_id in range(4):
        query.commit(batch_id, query.stage_numbers(100 * batch_id, 100 * (batch_id + 1)))
    assert query.stored() == numbers(0, 400)


def test_a_commit_that_is_done_again_changes_nothing(query: Query) -> None:
    staged = query.stage_numbers(0, 100)
    query.commit(0, staged)
    query.commit(0, staged)
    query.commit(0, query.stage_numbers(0, 100, attempt="again-"))
    assert query.stored() == numbers(0, 100)


def test_an_attempt_that_is_not_committed_is_never_seen(query: Query) -> None:
    query.stage_numbers(0, 100, attempt="failed-")
    query.commit(0, query.stage_numbers(0, 100))
    assert query.stored() == numbers(0, 100)


def test_a_driver_that_dies_after_deciding_is_followed_by_one_that_does_what_was_decided(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(exactly_once, "publish", die)
        with pytest.raises(DriverDied):
            query.commit(0, query.stage_numbers(0, 300, attempt="first-"))
    query.commit(0, query.stage_numbers(0, 300, attempt="second-"))
    assert query.stored() == numbers(0, 300, attempt="first-")


@pytest.mark.parametrize("rounds", [1, 5, 30])
def test_a_driver_that_dies_while_publishing_is_followed_by_one_that_goes_on(
    query: Query, monkeypatch: pytest.MonkeyPatch, rounds: int
) -> None:
    # Many small rounds, of which only so many are done; brokers know a producer's last five batches again, no more.
    monkeypatch.setattr(publishing, "_ROUND_BYTES", 1)
    messages = [query.stage_numbers(100 * task, 100 * (task + 1), task=task, attempt="a-") for task in range(12)]
    whole = publishing.Publisher.store
    left = count(rounds, -1)

    async def store(self: publishing.Publisher, batches: dict[Target, list[bytes]]) -> None:
        if next(left) <= 0:
            raise DriverDied
        await whole(self, batches)

    with monkeypatch.context() as patched:
        patched.setattr(publishing.Publisher, "store", store)
        with pytest.raises(DriverDied):
            query.commit(0, *messages)
    assert 0 < sum(query.stored().values()) < 1200
    query.commit(0, query.stage_numbers(0, 1200, attempt="b-"))
    assert query.stored() == numbers(0, 1200, attempt="a-")


def test_a_driver_that_dies_before_it_says_that_all_is_published_repeats_nothing(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "published", die)
        with pytest.raises(DriverDied):
            query.commit(0, query.stage_numbers(0, 300))
    assert query.stored() == numbers(0, 300)
    query.commit(0, query.stage_numbers(0, 300, attempt="again-"))
    assert query.stored() == numbers(0, 300)


def test_a_batch_that_is_all_published_needs_nothing_that_is_staged(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "published", die)
        with pytest.raises(DriverDied):
            query.commit(0, query.stage_numbers(0, 300))
    monkeypatch.setattr(publishing, "records_of", die)  # retention took it
    query.commit(0, query.stage_numbers(0, 300, attempt="again-"))
    assert query.stored() == numbers(0, 300)


def test_the_first_decision_on_a_batch_holds(query: Query, cluster: testing.TestingCluster) -> None:
    ensure_topics(query.admin)
    ledger = Ledger(query.admin, cluster_access(cluster.bootstrap), query.cluster, query.id)
    one, other, next_one = (
        Decision(
            batch_id,
            producer_id,
            0,
            b"s" * 16,
            {0: [1, 2, 5]},
            {Target(b"t" * 16, 1): Share(7, 3)},
            {b"t" * 16: "results"},
        )
        for batch_id, producer_id in ((0, 100), (0, 200), (1, 300))
    )
    assert ledger.latest() is None
    assert decided(ledger, one) == (one, True)
    assert decided(ledger, other) == (one, False)
    ledger.published(0)
    assert decided(ledger, next_one) == (next_one, True)
    ledger.published(0)  # by one that was believed to be dead
    assert decided(ledger, other) == (next_one, False)
    assert ledger.latest().is_published is False


def decided(ledger: Ledger, decision: Decision) -> tuple[Decision | None, bool]:
    """What holds when that was written, and whether it is that."""
    state, is_ours = ledger.decide(decision)
    return state.decision, is_ours


def test_what_was_decided_is_seen_though_a_leader_that_was_replaced_does_not_know_it(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    query.commit(0, query.stage_numbers(0, 100))
    with monkeypatch.context() as patched:
        patched.setattr(exactly_once, "publish", die)
        with pytest.raises(DriverDied):
            query.commit(1, query.stage_numbers(100, 200, attempt="first-"))
    partition = zlib.crc32(query.id.encode()) % LEDGER_PARTITIONS
    edge, before = Ledger._edge, query.admin.list_offsets([(LEDGER_TOPIC, partition)], "latest")
    stale = (before[LEDGER_TOPIC, partition] or 0) - 1  # type: ignore[index]  # where it ended before the decision
    monkeypatch.setattr(Ledger, "_edge", lambda self, which: stale if which == "latest" else edge(self, which))
    query.commit(1, query.stage_numbers(100, 200, attempt="second-"))
    assert query.stored() == numbers(0, 100) + numbers(100, 200, attempt="first-")


def test_a_ledger_that_is_given_more_partitions_forgets_nothing(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(exactly_once, "publish", die)
        with pytest.raises(DriverDied):
            query.commit(0, query.stage_numbers(0, 100, attempt="first-"))
    hashed = zlib.crc32(query.id.encode())
    before = len(query.admin.describe_topic(LEDGER_TOPIC).partitions)
    more = next(number for number in count(before + 1) if hashed % number != hashed % before)
    query.admin.create_partitions(LEDGER_TOPIC, more)
    query.admin.wait_for_topic(LEDGER_TOPIC)
    query.commit(0, query.stage_numbers(0, 100, attempt="second-"))
    assert query.stored() == numbers(0, 100, attempt="first-")


@pytest.mark.parametrize("remembered", [0, 1, 100_000])
def test_what_is_remembered_of_another_ledger_misleads_nobody(
    query: Query, monkeypatch: pytest.MonkeyPatch, remembered: int
) -> None:
    query.commit(0, query.stage_numbers(0, 10))
    with monkeypatch.context() as patched:
        patched.setattr(exactly_once, "publish", die)
        with pytest.raises(DriverDied):
            query.commit(1, query.stage_numbers(10, 20))
    for partition in range(LEDGER_PARTITIONS):
        query.admin.alter_group_offsets(f"lograft-spark-ledger-{query.id}", {(LEDGER_TOPIC, partition): remembered})
    query.commit(1, query.stage_numbers(10, 20, attempt="again-"))
    query.commit(2, query.stage_numbers(20, 30))
    assert query.stored() == numbers(0, 30)


def test_a_job_leaves_no_group_behind(query: Query) -> None:
    query.commit(0, query.stage_numbers(0, 10))
    assert f"lograft-spark-ledger-{query.id}" not in [group.name for group in query.admin.list_groups()]


def test_of_two_drivers_at_once_one_decides(query: Query) -> None:
    attempts = {name: query.stage_numbers(0, 400, attempt=name) for name in ("one-", "two-", "three-")}
    failures: list[BaseException] = []

    def commit(staged: Staged) -> None:
        try:
            query.commit(0, staged)
        except errors.LograftError as error:
            failures.append(error)

    threads = [threading.Thread(target=commit, args=(staged,)) for staged in attempts.values()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    assert query.stored() in [numbers(0, 400, attempt=name) for name in attempts]


def test_a_driver_that_is_overtaken_while_it_publishes_repeats_nothing_and_does_not_fail(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishing, "_ROUND_BYTES", 1)
    messages = [query.stage_numbers(100 * task, 100 * (task + 1), task=task, attempt="a-") for task in range(12)]
    again = query.stage_numbers(0, 1200, attempt="b-")
    whole, rounds = publishing.Publisher.store, count()

    async def store(self: publishing.Publisher, batches: dict[Target, list[bytes]]) -> None:
        if next(rounds) == 2:
            stopped.set()
            await asyncio.to_thread(overtaken.wait, 60)
        await whole(self, batches)

    stopped, overtaken = threading.Event(), threading.Event()
    with monkeypatch.context() as patched, ThreadPoolExecutor() as threads:
        patched.setattr(publishing.Publisher, "store", store)
        slow = threads.submit(query.commit, 0, *messages)
        assert stopped.wait(60)
        query.commit(0, again)
        overtaken.set()
        slow.result(60)
    assert query.stored() == numbers(0, 1200, attempt="a-")


def test_what_cannot_be_gone_on_with_is_told(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    # Such as when retention took away what was published, and the query comes back after that.
    monkeypatch.setattr(publishing, "_ROUND_BYTES", 1)
    messages = [query.stage_numbers(100 * task, 100 * (task + 1), task=task) for task in range(12)]
    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "published", die)
        with pytest.raises(DriverDied):
            query.commit(0, *messages)
    monkeypatch.setattr(publishing, "stored_of", lambda *_: 0)
    with pytest.raises(errors.OutOfOrderSequence, match=r"batch 0 was published in part.*new checkpoint"):
        query.commit(0, *messages)
    assert query.stored() == numbers(0, 1200)


def test_a_topic_that_is_deleted_while_it_is_published_is_told_at_once(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    staged = query.stage_numbers(0, 10)
    look_up = publishing.Publisher.look_up

    async def look_up_and_lose(self: publishing.Publisher, decision: Decision) -> None:
        await look_up(self, decision)
        await asyncio.to_thread(query.admin.delete_topic, query.topic)

    monkeypatch.setattr(publishing.Publisher, "look_up", look_up_and_lose)
    with pytest.raises(errors.UnknownTopicId, match="the topic was deleted while rows were being written"):
        query.commit(0, staged)


def test_a_driver_that_was_believed_to_be_dead_publishes_nothing_of_an_earlier_batch(query: Query) -> None:
    late = query.stage_numbers(0, 100, attempt="late-")
    query.commit(0, query.stage_numbers(0, 100))
    query.commit(1, query.stage_numbers(100, 200))
    query.commit(0, late)
    assert query.stored() == numbers(0, 200)


def test_a_late_commit_leaves_a_later_batch_to_whom_it_belongs(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    late = query.stage_numbers(0, 100, attempt="late-")
    query.commit(0, query.stage_numbers(0, 100))
    with monkeypatch.context() as patched:
        patched.setattr(exactly_once, "publish", die)
        with pytest.raises(DriverDied):
            query.commit(1, query.stage_numbers(100, 200))
    query.commit(0, late)
    assert query.stored() == numbers(0, 100)
    query.commit(1, query.stage_numbers(100, 200, attempt="again-"))
    assert query.stored() == numbers(0, 200)


def test_queries_do_not_get_into_one_anothers_way(cluster: testing.TestingCluster, admin: Admin) -> None:
    queries = [Query(cluster.bootstrap, admin) for _ in range(3)]
    for batch_id in range(3):
        for each in queries:
            each.commit(batch_id, each.stage_numbers(50 * batch_id, 50 * (batch_id + 1)))
    assert [each.stored() for each in queries] == [numbers(0, 150)] * 3


def test_leaders_that_are_killed_while_it_is_published_cost_nothing(
    cluster: testing.TestingCluster, query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishing, "_ROUND_BYTES", 1)
    messages = [query.stage_numbers(100 * task, 100 * (task + 1), task=task) for task in range(12)]
    whole = publishing.Publisher.store
    rounds = count()

    async def store(self: publishing.Publisher, batches: dict[Target, list[bytes]]) -> None:
        if next(rounds) == 3:
            (target, *_) = batches
            leader = self._cluster.view.leader(*target)
            assert leader is not None
            assert leader.broker_id is not None
            killed.append(leader.broker_id)
            cluster.kill(leader.broker_id)
        await whole(self, batches)

    killed: list[int] = []
    monkeypatch.setattr(publishing.Publisher, "store", store)
    query.commit(0, *messages)
    cluster.restart(killed[0])
    assert query.stored() == numbers(0, 1200)


def test_too_few_replicas_hold_a_batch_up_and_no_more(
    cluster: testing.TestingCluster, query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    query.admin.alter_config(ConfigKind.TOPIC, query.topic, {"min.insync.replicas": "3"})
    whole, killed = publishing.Publisher.store, 3

    async def store(self: publishing.Publisher, batches: dict[Target, list[bytes]]) -> None:
        cluster.kill(killed)
        await whole(self, batches)

    with monkeypatch.context() as patched:
        patched.setattr(publishing.Publisher, "store", store)
        patched.setattr(query, "cluster", replace(query.cluster, timeout_ms=5000))
        with pytest.raises(errors.TimedOut, match="took nothing for 5000 ms"):
            query.commit(0, query.stage_numbers(0, 300, attempt="first-"))
    cluster.restart(killed)
    query.commit(0, query.stage_numbers(0, 300, attempt="second-"))
    assert query.stored() == numbers(0, 300, attempt="first-")


def test_rows_say_their_partition_or_are_refused(query: Query) -> None:
    def staged(partition: int | None) -> Staged:
        columns = {"value": pa.array([b"a", b"b"]), "partition": pa.array([partition, 2], pa.int32())}
        return stage_rows(iter([pa.record_batch(columns)]), query.options, query.id, 0)

    query.commit(0, staged(1))
    assert query.admin.list_offsets([(query.topic, 1), (query.topic, 2)], "latest") == {
        (query.topic, 1): 1, (query.topic, 2): 1
    }  # fmt: skip
    for partition in (3, -1):
        with pytest.raises(errors.UnknownPartition, match="it has 0 to 2"):
            staged(partition)


def test_what_the_topic_would_not_take_fails_before_anything_is_decided(query: Query) -> None:
    query.admin.alter_config(
        ConfigKind.TOPIC, query.topic, {"max.message.bytes": "2000", "compression.type": "uncompressed"}
    )
    with pytest.raises(errors.BatchTooLarge, match="takes at most 2000"):
        query.stage(*[b"%d" % number for number in range(1000)], b"x" * 2000)
    query.commit(0, query.stage_numbers(0, 5000))
    assert query.stored() == numbers(0, 5000)
    query.admin.alter_config(ConfigKind.TOPIC, query.topic, {"cleanup.policy": "compact"})
    with pytest.raises(errors.InvalidRecord, match="every row needs a key"):
        stage_rows(iter([pa.record_batch({"value": pa.array([b"a"])})]), query.options, query.id, 0)


def test_staged_batches_that_are_missing_are_told(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    # Such as when somebody has the staging topic compacted.
    whole = publishing.records_of  # type: ignore[attr-defined]
    monkeypatch.setattr(publishing, "records_of", lambda parts: islice(whole(parts), 1, None))
    with pytest.raises(errors.OffsetOutOfRange, match="what was staged of it in lograft-spark-staged is gone"):
        query.commit(0, query.stage_numbers(0, 100))


def with_start_at(topic: str, offset: int) -> Any:
    """`Admin.list_offsets`, when retention took away all that is before."""
    whole = Admin.list_offsets

    def list_offsets(self: Admin, partitions: list[TopicPartition], at: Any) -> Any:
        found = whole(self, partitions, at)
        return {each: offset if each.topic == topic and at == "earliest" else found[each] for each in partitions}

    return list_offsets


def test_staged_batches_that_are_gone_before_anything_is_decided_cost_no_checkpoint(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    staged = query.stage_numbers(0, 100)
    with monkeypatch.context() as patched:
        patched.setattr(Admin, "list_offsets", with_start_at(STAGED_TOPIC, staged.offsets[0] + 1))
        with pytest.raises(errors.OffsetOutOfRange, match=r"nothing was decided yet; start the query again"):
            query.commit(0, staged)
    query.commit(0, query.stage_numbers(0, 100, attempt="again-"))
    assert query.stored() == numbers(0, 100, attempt="again-")


@pytest.mark.parametrize("topic", [STAGED_TOPIC, LEDGER_TOPIC])
def test_what_must_not_be_forgotten_is_not_to_be_compacted(query: Query, topic: str) -> None:
    staged = query.stage_numbers(0, 100)
    query.admin.alter_config(ConfigKind.TOPIC, topic, {"cleanup.policy": "compact,delete"})
    try:
        with pytest.raises(errors.InvalidConfig, match=rf"{topic} is compacted.*set its cleanup.policy to delete"):
            query.commit(0, staged)
    finally:
        query.admin.alter_config(ConfigKind.TOPIC, topic, {"cleanup.policy": "delete"})
    query.commit(0, staged)
    assert query.stored() == numbers(0, 100)


def test_defaults_of_the_cluster_do_not_shorten_what_is_remembered(query: Query) -> None:
    ensure_topics(query.admin)
    for topic in (STAGED_TOPIC, LEDGER_TOPIC):
        entries = query.admin.describe_config(ConfigKind.TOPIC, topic)
        own = {entry.key for entry in entries if entry.source == "topic"}
        assert own >= {"cleanup.policy", "retention.ms", "retention.bytes", "unclean.leader.election.enable"}


def test_a_decision_that_retention_took_counts_if_it_is_said_that_it_was_published(query: Query) -> None:
    ensure_topics(query.admin)
    with Producer(query.cluster.bootstrap) as producer:
        partition = zlib.crc32(query.id.encode()) % LEDGER_PARTITIONS
        content = b'{"kind": "published", "batch": 3}'
        producer.send(LEDGER_TOPIC, content, key=query.id.encode(), partition=partition)
    query.commit(3, query.stage_numbers(0, 100))
    assert query.stored() == Counter()
    query.commit(4, query.stage_numbers(100, 200))
    assert query.stored() == numbers(100, 200)


class Later:
    """A cluster's clock, some time on."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.ahead_ms = 0

    def wall_ms(self) -> int:
        return self._clock.wall_ms() + self.ahead_ms

    def __getattr__(self, name: str) -> Any:
        return getattr(self._clock, name)


@pytest.fixture
def later(cluster: testing.TestingCluster, monkeypatch: pytest.MonkeyPatch) -> Later:
    """What drivers of this process take for the time."""
    client = cluster_access(cluster.bootstrap).cluster
    later = Later(client.runtime.clock)
    monkeypatch.setattr(client, "runtime", replace(client.runtime, clock=later))
    return later


def test_a_driver_that_slept_looks_before_it_goes_on(
    query: Query, later: Later, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Brokers may have forgotten its producer by then, and would store it all a second time.
    staged, again = query.stage_numbers(0, 300, attempt="a-"), query.stage_numbers(0, 300, attempt="b-")
    look_up, asked = publishing.Publisher.look_up, count()

    async def sleep_after_look_up(self: publishing.Publisher, decision: Decision) -> None:
        await look_up(self, decision)
        if next(asked) == 0:
            await asyncio.to_thread(query.commit, 0, again)  # meanwhile another one does it all
            later.ahead_ms = publishing.TRUST_MS + 60_000
            monkeypatch.setattr(publishing.Publisher, "_attempt", die)  # it is not to send anything

    monkeypatch.setattr(publishing.Publisher, "look_up", sleep_after_look_up)
    query.commit(0, staged)
    assert query.stored() == numbers(0, 300, attempt="a-")


@pytest.mark.parametrize("forgets", ["by retention", "by compaction"])
def test_what_was_decided_long_ago_is_not_published_where_it_may_have_been_forgotten(
    query: Query, later: Later, monkeypatch: pytest.MonkeyPatch, forgets: str
) -> None:
    query.commit(0, query.stage_numbers(0, 50))
    with monkeypatch.context() as patched:
        patched.setattr(exactly_once, "publish", die)
        with pytest.raises(DriverDied):
            query.commit(1, query.stage_numbers(50, 100))
    if forgets == "by compaction":
        query.admin.alter_config(ConfigKind.TOPIC, query.topic, {"cleanup.policy": "compact"})
    later.ahead_ms = publishing.TRUST_MS + 60_000
    with monkeypatch.context() as patched:
        if forgets == "by retention":
            patched.setattr(Admin, "list_offsets", with_start_at(query.topic, 10**9))
        with pytest.raises(errors.OffsetOutOfRange, match=r"how far cannot be told any more.*decided too long ago"):
            query.commit(1, query.stage_numbers(50, 100))
    later.ahead_ms = 0
    query.commit(1, query.stage_numbers(50, 100))
    assert query.stored() == numbers(0, 100)


STEPS = [
    (exactly_once, "ensure_topics"),
    (exactly_once, "check_topics"),
    (exactly_once, "_decide"),
    (Ledger, "_append"),
    (Ledger, "_read_on"),
    (Ledger, "_remember"),
    (publishing, "_all_stored"),
    (publishing.Publisher, "look_up"),
    (publishing.Publisher, "_attempt"),
]


def test_a_driver_may_die_between_any_two_steps(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the n-th batch, at the n-th step. The one that follows it goes on, or begins anew if nothing was decided."""
    for batch_id in count():
        try:
            with monkeypatch.context() as patched:
                steps = Crossings(batch_id)
                for owner, name in STEPS:
                    patched.setattr(owner, name, steps.around(getattr(owner, name)))
                query.commit(batch_id, query.stage_numbers(0, 6, attempt=f"{batch_id}-first-"))
        except DriverDied:
            query.commit(batch_id, query.stage_numbers(0, 6, attempt=f"{batch_id}-second-"))
        else:
            break
    assert batch_id > 15, "there are some steps to die at"
    stored = query.stored()
    for each in range(batch_id + 1):
        of_batch = Counter(
            {value: found for value, found in stored.items() if (value or b"").startswith(b"%d-" % each)}
        )
        assert of_batch in [numbers(0, 6, attempt=f"{each}-{attempt}-") for attempt in ("first", "second")]


class Crossings:
    """Dies before or after the so manieth step."""

    def __init__(self, dies_at: int) -> None:
        self._left = dies_at

    def _cross(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise DriverDied

    def around(self, step: Any) -> Any:
        def run(*arguments: Any, **named: Any) -> Any:
            self._cross()
            done = step(*arguments, **named)
            self._cross()
            return done

        async def run_async(*arguments: Any, **named: Any) -> Any:
            self._cross()
            done = await step(*arguments, **named)
            self._cross()
            return done

        return run_async if asyncio.iscoroutinefunction(step) else run


def test_a_topic_that_is_not_there_is_named(query: Query) -> None:
    options = WriteOptions(query.cluster, "no-such-topic", None, "all", True)
    batch = pa.record_batch({"value": pa.array([b"a"])})
    with pytest.raises(errors.UnknownTopic, match="no-such-topic"):
        stage_rows(iter([batch]), options, query.id, 0)


def test_a_topic_that_is_recreated_meanwhile_gets_nothing(query: Query) -> None:
    staged = query.stage_numbers(0, 10)
    query.admin.delete_topic(query.topic)
    query.admin.create_topic(query.topic, partitions=3, replicas=3)
    query.admin.wait_for_topic(query.topic)
    with pytest.raises(errors.UnknownTopicId, match="recreated"):
        query.commit(0, staged)
    assert query.stored() == Counter()


@pytest.mark.parametrize("record", [b'{"kind": "decided"}', b"[]", b"not JSON", None])
def test_what_is_not_ours_in_the_ledger_is_told(
    query: Query, cluster: testing.TestingCluster, record: bytes | None
) -> None:
    ensure_topics(query.admin)
    with Producer(cluster.bootstrap) as producer:
        for partition in range(4):
            producer.send(LEDGER_TOPIC, record, key=query.id.encode(), partition=partition)
    ledger = Ledger(query.admin, cluster_access(cluster.bootstrap), query.cluster, query.id)
    with pytest.raises(errors.InvalidArgument, match="let nobody else write there"):
        ledger.latest()
