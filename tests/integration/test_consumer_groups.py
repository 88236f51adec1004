"""Groups of real consumers on real brokers: members come, go, stop and die, and so do coordinators."""

import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.group_readers import GroupReader, NumberedRecords, ReadTogether, reading_process
from support.programs import Program
from support.server_processes import until

from lograft import Admin, Consumer, Producer, TopicPartition, errors, testing
from lograft.clients.admin.model.group_types import GroupState

ENOUGH = 1000
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def cluster() -> Iterator[testing.TestingCluster]:
    with testing.cluster(nodes=3) as cluster:
        yield cluster


@pytest.fixture
def admin(cluster: testing.TestingCluster) -> Iterator[Admin]:
    with Admin(cluster.bootstrap) as admin:
        yield admin


def store(cluster: testing.TestingCluster, topic: str, count: int, *, partition: int | None = None) -> None:
    with Producer(cluster.bootstrap) as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number, partition=partition)


def poll_until(consumer: Consumer, count: int) -> list[bytes | None]:
    values: list[bytes | None] = []

    def poll() -> bool:
        values.extend(record.value for record in consumer.poll(0.1))
        return len(values) >= count

    until(poll, f"{count} records are read")
    return values


def check_all_read(admin: Admin, topic: str, together: ReadTogether, count: int) -> None:
    """Every record, and every partition is committed to its end."""
    assert together.missing(count) == []
    offsets = admin.group_offsets(topic)
    assert sum(offset.committed for offset in offsets.values()) == count
    assert [offset.lag for offset in offsets.values()] == [0] * len(offsets)
    print(f"{topic}: {count} records, {together.more_than_once} of them more than once")


def test_members_join_and_leave_under_load(cluster: testing.TestingCluster, admin: Admin) -> None:
    admin.create_topic("coming", partitions=6, replicas=3)
    together = ReadTogether()
    with GroupReader(cluster.bootstrap, "coming", together) as first:
        with NumberedRecords(cluster.bootstrap, "coming") as written:
            first.until_has(6)
            written.until_written(ENOUGH)
            with GroupReader(cluster.bootstrap, "coming", together) as second:
                second.until_has(3)
                with GroupReader(cluster.bootstrap, "coming", together) as third:
                    third.until_has(2)
                    assert admin.wait_for_group("coming", members=3).state is GroupState.STABLE
                    written.until_written(ENOUGH)
                    first.stop()
                    third.until_has(3)
                    written.until_written(ENOUGH)
                second.until_has(6)
                written.until_written(ENOUGH)
                last = GroupReader(cluster.bootstrap, "coming", together)
                last.until_has(3)
            last.until_has(6)
        until(lambda: together.has_all(written.count), "all is read")
        last.stop()
    assert not any(kind == "lost" for reader in (first, second, third, last) for kind, _ in reader.told.events)
    check_all_read(admin, "coming", together, written.count)
    assert admin.describe_group("coming").state is GroupState.EMPTY


def test_the_coordinator_is_killed_and_all_brokers_are_restarted_under_load(
    cluster: testing.TestingCluster, admin: Admin
) -> None:
    admin.create_topic("surviving", partitions=4, replicas=3)
    together = ReadTogether()
    with (
        GroupReader(cluster.bootstrap, "surviving", together, auto_commit_interval_ms=200) as first,
        GroupReader(cluster.bootstrap, "surviving", together, auto_commit_interval_ms=200) as second,
    ):
        with NumberedRecords(cluster.bootstrap, "surviving") as written:
            first.until_has(2)
            second.until_has(2)
            coordinator = admin.describe_group("surviving").coordinator
            cluster.kill(coordinator)
            written.until_written(ENOUGH)
            until(lambda: admin.describe_group("surviving").coordinator != coordinator, "another broker coordinates")
            cluster.restart(coordinator)
            for node in (1, 2, 3):
                cluster.restart(node)
                written.until_written(ENOUGH)
        until(lambda: together.has_all(written.count), "all is read")
        first.stop()
        second.stop()
    check_all_read(admin, "surviving", together, written.count)


def test_the_coordinator_is_stopped_under_load(cluster: testing.TestingCluster, admin: Admin) -> None:
    admin.create_topic("silent", partitions=4, replicas=3)
    together = ReadTogether()
    with GroupReader(cluster.bootstrap, "silent", together) as reader:
        with NumberedRecords(cluster.bootstrap, "silent") as written:
            reader.until_has(4)
            coordinator = admin.describe_group("silent").coordinator
            cluster.pause(coordinator)
            try:
                until(lambda: admin.describe_group("silent").coordinator != coordinator, "another broker coordinates")
                written.until_written(ENOUGH)
            finally:
                cluster.resume(coordinator)
            written.until_written(ENOUGH)
        until(lambda: together.has_all(written.count), "all is read")
        reader.stop()
    check_all_read(admin, "silent", together, written.count)
    print(f"meanwhile the member was told: {reader.told.events[1:]}")


def test_a_member_that_is_stopped_loses_its_partitions_and_cannot_commit_them(
    cluster: testing.TestingCluster, admin: Admin
) -> None:
    admin.create_topic("stopped", partitions=1, replicas=3)
    store(cluster, "stopped", 10)
    with reading_process(cluster.bootstrap, "stopped") as process:
        assert process.line() == "READ 10\n"
        process.send_signal(signal.SIGSTOP)
        with Consumer(cluster.bootstrap, group="stopped", auto_offset_reset="earliest") as heir:
            heir.subscribe(["stopped"])
            assert len(poll_until(heir, 10)) == 10
            heir.commit()
            process.send_signal(signal.SIGCONT)
            process.tell("commit\n")
            assert "REFUSED COMMIT_FAILED: stopped-0 may be read by another" in process.line()
            assert heir.assignment() == [TopicPartition("stopped", 0)]
        store(cluster, "stopped", 1)
        assert process.line() == "READ AGAIN\n"
        assert process.wait(60) == 0


def test_a_member_that_does_not_poll_gives_its_partitions_up(cluster: testing.TestingCluster, admin: Admin) -> None:
    admin.create_topic("idle", partitions=2, replicas=3)
    store(cluster, "idle", 10)
    options = {"group": "idle", "auto_offset_reset": "earliest"}
    with Consumer(cluster.bootstrap, max_poll_interval_ms=1000, **options) as idle:  # type: ignore[arg-type]
        idle.subscribe(["idle"])
        assert len(poll_until(idle, 10)) == 10
        with Consumer(cluster.bootstrap, **options) as busy:  # type: ignore[arg-type]
            busy.subscribe(["idle"])
            assert len(poll_until(busy, 10)) == 10
            assert len(busy.assignment()) == 2
            with pytest.raises(errors.CommitFailed, match="max_poll_interval_ms"):
                idle.commit()
        assert idle.assignment() == []
        # It polls, and is a member again.
        store(cluster, "idle", 5)
        assert len(poll_until(idle, 5)) == 5
        idle.commit()


def test_a_static_member_that_comes_back_finds_its_partitions_and_nobody_is_disturbed(
    cluster: testing.TestingCluster, admin: Admin
) -> None:
    admin.create_topic("static", partitions=4, replicas=3)
    together = ReadTogether()
    with GroupReader(cluster.bootstrap, "static", together, instance_id="one") as one:
        with GroupReader(cluster.bootstrap, "static", together, instance_id="two") as two:
            two.until_has(2)
            one.until_has(2)
            admin.wait_for_group("static", members=2)
            had, before = two.assignment, list(one.told.events)
        assert len(admin.describe_group("static").members) == 2
        with GroupReader(cluster.bootstrap, "static", together, instance_id="two") as again:
            again.until_has(2)
            assert again.assignment == had
            assert one.told.events == before


def test_two_consumers_with_one_instance_id_cannot_both_be_members(
    cluster: testing.TestingCluster, admin: Admin
) -> None:
    admin.create_topic("twins", partitions=1, replicas=3)
    store(cluster, "twins", 1)
    options = {"group": "twins", "auto_offset_reset": "earliest", "instance_id": "one"}
    with Consumer(cluster.bootstrap, **options) as first:  # type: ignore[arg-type]
        first.subscribe(["twins"])
        poll_until(first, 1)
        with Consumer(cluster.bootstrap, auto_commit=False, **options) as second:  # type: ignore[arg-type]
            second.subscribe(["twins"])
            until(lambda: second.poll(0.1) is not None and bool(second.assignment()), "the second has the partition")
            with pytest.raises(errors.FencedInstanceId, match="use a unique instance id for each consumer"):
                first.poll(30)


def test_patterns_and_partitions_that_are_added(cluster: testing.TestingCluster, admin: Admin) -> None:
    admin.create_topic("pattern-a", partitions=1, replicas=3)
    admin.create_topic("other", partitions=1, replicas=3)
    with Consumer(cluster.bootstrap, group="pattern", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(re.compile("pattern-.*"))
        store(cluster, "pattern-a", 1)
        poll_until(consumer, 1)
        admin.create_topic("pattern-b", partitions=1, replicas=3)
        store(cluster, "pattern-b", 1)
        poll_until(consumer, 1)
        assert consumer.subscription() == ["pattern-a", "pattern-b"]
        admin.create_partitions("pattern-b", 2)
        store(cluster, "pattern-b", 1, partition=1)
        poll_until(consumer, 1)
        admin.delete_topic("pattern-a")
        left = [TopicPartition("pattern-b", 0), TopicPartition("pattern-b", 1)]
        until(lambda: consumer.poll(0.1) == [] and consumer.assignment() == left, "the deleted topic is let go")
        assert consumer.subscription() == ["pattern-b"]


def test_offsets_are_looked_at_reset_and_deleted(cluster: testing.TestingCluster, admin: Admin) -> None:
    admin.create_topic("ledger", partitions=2, replicas=3)
    for partition in (0, 1):
        store(cluster, "ledger", 10, partition=partition)
    names = [TopicPartition("ledger", 0), TopicPartition("ledger", 1)]
    assert admin.alter_group_offsets("ledger", {names[0]: 4}) == {names[0]: None}
    assert [(each.committed, each.end, each.lag) for each in admin.group_offsets("ledger").values()] == [(4, 10, 6)]
    with Consumer(cluster.bootstrap, group="ledger", auto_offset_reset="latest") as consumer:
        consumer.subscribe(["ledger"])
        assert len(poll_until(consumer, 6)) == 6
        with pytest.raises(errors.GroupNotEmpty):
            admin.alter_group_offsets("ledger", {names[0]: 0})
        with pytest.raises(errors.GroupNotEmpty):
            admin.delete_group("ledger")
        assert isinstance(admin.delete_group_offsets("ledger", names)[names[0]], errors.GroupSubscribedToTopic)
        member_id = consumer.member_id
        assert admin.remove_members("ledger") == [member_id]
    assert admin.reset_group_offsets("ledger", names, "earliest") == {names[0]: 0, names[1]: 0}
    assert admin.reset_group_offsets("ledger", names, "latest", validate_only=True) == {names[0]: 10, names[1]: 10}
    assert admin.reset_group_offsets("ledger", names, 0, validate_only=True) == {names[0]: 0, names[1]: 0}
    assert [each.lag for each in admin.group_offsets("ledger").values()] == [10, 10]
    assert admin.delete_group_offsets("ledger", [names[0]]) == {names[0]: None}
    assert list(admin.group_offsets("ledger")) == [names[1]]
    assert "ledger" in [group.name for group in admin.list_groups()]
    admin.delete_group("ledger")
    assert "ledger" not in [group.name for group in admin.list_groups()]
    with pytest.raises(errors.GroupNotFound):
        admin.describe_group("ledger")


def test_the_example_that_consumes_transforms_and_produces(cluster: testing.TestingCluster, admin: Admin) -> None:
    for topic in ("prices-eur", "prices-usd"):
        admin.create_topic(topic, partitions=3, replicas=3)
    store(cluster, "prices-eur", 100)
    command = [sys.executable, "examples/consume_transform_produce.py", cluster.bootstrap, "prices-eur", "prices-usd"]
    with Program(*command, cwd=ROOT) as example:
        with Consumer(cluster.bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign(consumer.partitions_for("prices-usd"))
            converted = poll_until(consumer, 100)
        until(lambda: sum(o.committed for o in admin.group_offsets("to-dollars").values()) == 100, "all is committed")
        assert sorted(float(value or b"") for value in converted) == [
            float(b"%.2f" % (number * 1.08)) for number in range(100)
        ]
        output, _ = example.communicate(timeout=60)
        assert example.returncode == 0
        assert output.startswith("assigned: 0 1 2\n")
        assert output.endswith("revoked: 0 1 2\n")
