"""What is told of topics, brokers, groups and the quorum; and whether a group is said to keep up."""

from dataclasses import replace
from uuid import UUID

import pytest

from lograft.cli.common.cluster_options import Settings
from lograft.cli.common.units import count_text, size_text, span_text
from lograft.cli.output.resource_output import Resource
from lograft.cli.resources.cluster_resources import (
    QUORUM_COLUMNS,
    broker_resource,
    hosted_status,
    partition_resource,
    quorum_resource,
    topic_resource,
)
from lograft.cli.resources.describe_text import story_lines
from lograft.cli.resources.group_health import (
    STALLED_AFTER_MS,
    UNSEEN_AFTER_MS,
    GroupLook,
    GroupVerdict,
    PartitionLook,
    judge,
    judge_partition,
    needs_another_look,
    sum_up,
)
from lograft.cli.resources.group_resources import group_resource, judged_resource
from lograft.cli.resources.load_resources import load_status
from lograft.clients.admin.model.group_types import GroupDescription, GroupOffset, GroupState, MemberDescription
from lograft.clients.admin.model.types import (
    BrokerDescription,
    BrokerLoad,
    BrokerState,
    ClusterDescription,
    PartitionDescription,
    QuorumDescription,
    QuorumMember,
    ReplicaDescription,
    TopicDescription,
)
from lograft.clients.types import TopicPartition

# -- verdicts

HERE = TopicPartition("orders", 0)
LAGGING = PartitionLook(committed=50, start=None, end=100, committed_at_ms=9000, seen_at_ms=10_000, has_reader=True)


def aged(look: PartitionLook, age_ms: int) -> PartitionLook:
    return replace(look, seen_at_ms=look.committed_at_ms + age_ms)


def later(committed: int, end: int, *, committed_after_ms: int = 2000, seen_after_ms: int = 2000) -> PartitionLook:
    """Another look, after a commit."""
    return replace(
        LAGGING,
        committed=committed,
        end=end,
        committed_at_ms=LAGGING.committed_at_ms + committed_after_ms,
        seen_at_ms=LAGGING.seen_at_ms + seen_after_ms,
    )


STABLE = GroupState.STABLE


@pytest.mark.parametrize(
    ("first", "last", "state", "expected", "why"),
    [
        (LAGGING, later(100, 100), STABLE, GroupVerdict.KEEPING_UP, "all records were read"),
        (LAGGING, later(80, 110), STABLE, GroupVerdict.KEEPING_UP, "30 records to read"),
        # A commit every few seconds: what came in since is not lag yet.
        (LAGGING, later(105, 160), STABLE, GroupVerdict.KEEPING_UP, "55 records"),
        (
            LAGGING,
            later(60, 140),
            STABLE,
            GroupVerdict.FALLING_BEHIND,
            "80 records to read; about 20/s arrive, and 5/s",
        ),
        # Less is left than at the first look, just before a commit; but from commit to commit 100 came in, and 60 went.
        (
            replace(LAGGING, end=1000),
            later(110, 1020, committed_after_ms=5000, seen_after_ms=1000),
            STABLE,
            GroupVerdict.FALLING_BEHIND,
            "910 records to read; about 20/s arrive, and 12/s are read",
        ),
        # More is left than at the first look, just after a commit; but as many were read as came in.
        (
            replace(LAGGING, end=1000),
            later(150, 1110, committed_after_ms=5000, seen_after_ms=5500),
            STABLE,
            GroupVerdict.KEEPING_UP,
            "960 records to read, and it is being read",
        ),
        # A clock was set.
        (LAGGING, later(60, 140, committed_after_ms=-1), STABLE, GroupVerdict.KEEPING_UP, "80 records to read"),
        (LAGGING, LAGGING, STABLE, GroupVerdict.UNKNOWN, "last committed 1s ago"),
        (LAGGING, aged(LAGGING, STALLED_AFTER_MS), STABLE, GroupVerdict.STALLED, "no offset was committed for 30s"),
        (LAGGING, aged(LAGGING, STALLED_AFTER_MS - 1), STABLE, GroupVerdict.UNKNOWN, "29s ago"),
        (LAGGING, replace(LAGGING, has_reader=False), STABLE, GroupVerdict.STALLED, "no member reads it"),
        (LAGGING, replace(LAGGING, has_reader=False), GroupState.EMPTY, GroupVerdict.STALLED, "no member reads it"),
        (LAGGING, replace(LAGGING, has_reader=False), GroupState.RECONCILING, GroupVerdict.UNKNOWN, "another member"),
        (LAGGING, replace(LAGGING, end=None), STABLE, GroupVerdict.UNKNOWN, "is unknown"),
        (LAGGING, replace(LAGGING, committed=None), STABLE, GroupVerdict.UNKNOWN, "no offset committed"),
        (LAGGING, replace(LAGGING, committed=None, start=100), STABLE, GroupVerdict.KEEPING_UP, "no records to read"),
        (LAGGING, replace(LAGGING, committed=120), STABLE, GroupVerdict.KEEPING_UP, "all records were read"),
    ],
)
def test_what_is_said_of_a_partition(
    first: PartitionLook, last: PartitionLook, state: GroupState, expected: GroupVerdict, why: str
) -> None:
    found = judge_partition(first, last, state)
    assert found.verdict is expected
    assert why in found.reason


OUTSIDE = replace(LAGGING, has_reader=False)


@pytest.mark.parametrize(
    ("last", "expected", "why"),
    [
        (
            replace(later(80, 110), has_reader=False),
            GroupVerdict.KEEPING_UP,
            "30 records to read, and it is being read",
        ),
        (replace(later(60, 140), has_reader=False), GroupVerdict.FALLING_BEHIND, "20/s arrive, and 5/s are read"),
        (OUTSIDE, GroupVerdict.UNKNOWN, "50 records to read; last committed 1s ago"),
        (aged(OUTSIDE, 4 * 60_000), GroupVerdict.UNKNOWN, "last committed 4m ago"),
        (aged(OUTSIDE, UNSEEN_AFTER_MS), GroupVerdict.STALLED, "no offset was committed for 5m"),
        (replace(OUTSIDE, committed=40), GroupVerdict.UNKNOWN, "60 records to read; last committed 1s ago"),
        (replace(OUTSIDE, committed=100), GroupVerdict.KEEPING_UP, "all records were read"),
    ],
)
def test_a_group_that_never_had_members_is_judged_by_its_commits(
    last: PartitionLook, expected: GroupVerdict, why: str
) -> None:
    """As a Spark query commits, after each of its batches."""
    found = judge_partition(OUTSIDE, last, GroupState.EMPTY, had_members=False)
    assert found.verdict is expected
    assert why in found.reason


def test_members_that_left_are_missed_unless_somebody_commits() -> None:
    assert judge_partition(OUTSIDE, OUTSIDE, GroupState.EMPTY).verdict is GroupVerdict.STALLED
    moving = replace(later(80, 110), has_reader=False)
    assert judge_partition(OUTSIDE, moving, GroupState.EMPTY).verdict is GroupVerdict.KEEPING_UP


def test_a_running_spark_query_is_told_apart_from_a_group_that_has_read_all() -> None:
    first, moving = (
        GroupLook(GroupState.EMPTY, {HERE: each}, had_members=False)
        for each in (OUTSIDE, replace(later(80, 110), has_reader=False))
    )
    told = sum_up(judge(first, moving), GroupState.EMPTY)
    assert told.verdict is GroupVerdict.KEEPING_UP
    assert told.reason == "offsets are committed without members, as Spark does, and the group has no members"
    done = GroupLook(GroupState.EMPTY, {HERE: replace(OUTSIDE, committed=100)}, had_members=False)
    assert sum_up(judge(done, done), GroupState.EMPTY).reason == "all records were read, and the group has no members"


@pytest.mark.parametrize(
    ("last", "had_members", "expected"),
    [
        (OUTSIDE, True, False),
        (OUTSIDE, False, True),
        (aged(OUTSIDE, UNSEEN_AFTER_MS), False, False),
        (replace(OUTSIDE, committed=60), False, False),
        (replace(OUTSIDE, committed=100), False, False),
    ],
)
def test_a_group_without_members_is_looked_at_again_while_it_may_move(
    last: PartitionLook, had_members: bool, expected: bool
) -> None:
    first = GroupLook(GroupState.EMPTY, {HERE: OUTSIDE}, had_members=had_members)
    assert needs_another_look(first, replace(first, partitions={HERE: last})) == expected


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        (LAGGING, True),
        (replace(LAGGING, committed=60), False),
        (replace(LAGGING, committed=100), False),
        (replace(LAGGING, has_reader=False), False),
        (replace(LAGGING, end=None), False),
    ],
)
def test_only_what_may_yet_move_is_looked_at_again(last: PartitionLook, expected: bool) -> None:
    assert needs_another_look(GroupLook(STABLE, {HERE: LAGGING}), GroupLook(STABLE, {HERE: last})) == expected
    assert needs_another_look(GroupLook(STABLE, {}), GroupLook(STABLE, {HERE: last})) == bool(
        last.has_reader and last.lag
    )


def test_the_worst_partition_speaks_for_the_group() -> None:
    names = [TopicPartition("orders", number) for number in range(6)]
    first = GroupLook(STABLE, dict.fromkeys(names, LAGGING))
    stalled = aged(LAGGING, STALLED_AFTER_MS)
    moving, slow = later(100, 100), later(60, 140)
    last = GroupLook(STABLE, dict(zip(names, [moving, slow, stalled, stalled, stalled, stalled], strict=True)))
    whole = sum_up(judge(first, last), STABLE)
    assert whole.verdict is GroupVerdict.STALLED
    assert whole.reason.startswith("orders-2: 50 records to read")
    assert whole.reason.endswith("; and 1 more")
    fine = GroupLook(STABLE, {names[0]: moving})
    assert sum_up(judge(first, fine), STABLE).verdict is GroupVerdict.KEEPING_UP
    assert sum_up({}, GroupState.EMPTY).verdict is GroupVerdict.UNKNOWN
    alone = sum_up(
        judge(fine, GroupLook(GroupState.EMPTY, {names[0]: replace(LAGGING, has_reader=False)})), GroupState.EMPTY
    )
    assert alone.reason == "it has no members; orders-0: 50 records to read, and no member reads it"


# -- amounts


def test_amounts_are_told_as_people_say_them() -> None:
    sizes = [0, 999, 1000, 15_000, 999_499, 999_500, 1_234_567_890, 10**18]
    assert list(map(size_text, sizes)) == ["0 B", "999 B", "1 KB", "15 KB", "999 KB", "1 MB", "1.23 GB", "1e+03 PB"]
    assert size_text(None) is None
    spans = [5, 999, 1000, 1999, 2000, 119_000, 120_000, 7_200_000, 200_000_000]
    assert list(map(span_text, spans)) == ["5ms", "999ms", "1s", "1s", "2s", "119s", "2m", "2h", "2d"]
    assert (count_text(1, "record"), count_text(2, "record"), count_text(0, "entry", "entries")) == (
        "1 record", "2 records", "0 entries",
    )  # fmt: skip


# -- stories

PARTITION = PartitionDescription("orders", 0, 1, 3, (1, 2, 3), (1, 2, 3), (), (), (), None)
OFFLINE = replace(PARTITION, number=1, leader=None, isr=(), elr=(2,))
TOPIC = TopicDescription(UUID(int=5), "orders", False, (PARTITION, OFFLINE), {})
BROKER = BrokerDescription(1, "b1:1", None, BrokerState.FENCED, 7, (UUID(int=7), UUID(int=8)))
REPLICA = ReplicaDescription(PARTITION.name, 1, True, 3, 5, 12, 10, 4096, UUID(int=7))
CONFIG = [
    {"key": "flush.ms", "value": "9", "source": "default"},
    {"key": "min.insync.replicas", "value": "2", "source": "topic"},
]


def told(each: Resource, *, is_coloured: bool = False) -> str:
    return "".join(story_lines(each, Settings("b", 1), is_coloured=is_coloured))


def test_a_topics_story() -> None:
    topic = topic_resource(TOPIC)
    rows = [partition_resource(PARTITION, REPLICA), partition_resource(OFFLINE)]
    topic["status"] |= {
        "partitions": [{"partition": row["metadata"]["partition"]} | row["status"] for row in rows],
        "problems": ["broker 3 is down"],
        "groups": None,
        "config": CONFIG,
    }
    text = told(topic)
    assert "Partitions:  2, 1 under-replicated and 1 without a leader\n" in text
    assert "Replicas:    3, 2 must be in sync for writes\n" in text
    assert "Size:        -\n" in text
    assert "Problem:     broker 3 is down\n" in text
    assert "          0        1       3   1,2,3      1,2,3   -         5          10    12   4.1 KB\n" in text
    assert "          1        -       3   1,2,3      -       2         -           -     -        -\n" in text
    assert "ADDING" not in text
    assert "Consumer groups: not available in time\n" in text
    assert text.index("min.insync.replicas") < text.index("flush.ms")
    assert "\x1b[31m2, 1 under-replicated" in told(topic, is_coloured=True)


def test_a_brokers_story() -> None:
    cluster = ClusterDescription("c", 1, (BROKER,), (TOPIC,))
    broker = broker_resource(BROKER, cluster)
    broker["status"] |= {
        "partitions": [hosted_status(PARTITION, 1, REPLICA), hosted_status(OFFLINE, 1, None)],
        "config": [],
        "load": None,
        "disks": None,
    }
    text = told(broker)
    assert "State:       fenced: the controller receives no heartbeats from it\n" in text
    assert "Version:     <unknown>\n" in text
    assert "Partitions:  leads 1, hosts 2, 1 of them not in sync\n" in text
    assert f"  {UUID(int=7)}          -      -           -         -   -\n" in text
    assert "  orders       1       2   1                -\n" in text
    broker["status"]["partitions"] = [hosted_status(PARTITION, 1, REPLICA)]
    room = {"path": "/d7", "freeBytes": 3_000_000, "totalBytes": 10**9, "reserveBytes": 50_000_000, "full": True}
    broker["status"]["disks"] = [{"directory": str(UUID(int=7)), **room}]
    assert f"  {UUID(int=7)}          1   4.1 KB   3 MB (full)     50 MB   /d7\n" in told(broker)
    assert f"  {UUID(int=8)}          0      0 B             -         -   -\n" in told(broker)
    assert "\x1b[31m3 MB (full)\x1b[0m" in told(broker, is_coloured=True)
    assert "\x1b[31mfenced: the controller receives no heartbeats from it\x1b[0m" in told(broker, is_coloured=True)


def test_what_a_broker_has_to_do_is_what_it_did_between_two_looks() -> None:
    first = BrokerLoad(1, 5000, 100, 10, 1, 1000, 10, 0, 0, 0, 0, 1.25, 3, ())
    last = replace(first, uptime_ms=7000, at_ms=2100, requests=30, bytes_in=5_001_000, records_in=60, errors=2)
    load = load_status(first, last)
    assert load is not None
    assert (load["requestsPerSecond"], load["bytesInPerSecond"], load["recordsInPerSecond"]) == (10, 2_500_000, 25)
    broker = broker_resource(BROKER, ClusterDescription("c", 1, (BROKER,), ()))
    broker["status"] |= {"partitions": [], "config": [], "load": load, "disks": None}
    text = told(broker)
    assert "In:          2.5 MB/s, 25 records/s\n" in text
    assert "Requests:    10/s, 0.5 errors/s\n" in text
    assert "Loop lag:    1.25 ms\n" in text
    assert load_status(first, None) is load_status(None, last) is load_status(first, first) is None
    assert load_status(first, replace(last, uptime_ms=1999)) is None  # started anew: counted from 0


def test_a_groups_story() -> None:
    member = MemberDescription("m-1", None, "client", None, 4, ("orders",), (HERE,), (HERE,), ())
    described = GroupDescription("billing", STABLE, 4, 4, "uniform", (member,), 2)
    group = group_resource(described, {HERE: GroupOffset(50, 100, "", None, 0)})
    stalled = aged(LAGGING, 60_000)
    judged = judged_resource(
        group, judge(GroupLook(STABLE, {HERE: LAGGING}), GroupLook(STABLE, {HERE: stalled})), STABLE
    )
    text = told(judged)
    assert "Verdict:      stalled: orders-0: 50 records to read, and no offset was committed for 60s\n" in text
    assert "Lag:          50 records\n" in text
    assert "  orders           0          50   100    50   stalled   m-1\n" in text
    assert "  m-1      client   orders   orders-0\n" in text
    assert judged["status"]["verdict"] == judged["status"]["partitions"][0]["verdict"] == "stalled"


def test_a_quorums_story() -> None:
    members = (
        QuorumMember(1, UUID(int=1), "c1:1", True, 9),
        QuorumMember(2, UUID(int=2), "c2:1", True, 4),
        QuorumMember(3, None, "c3:1", True, None),
        QuorumMember(4, None, "c4:1", False, None),
    )
    text = told(quorum_resource(QuorumDescription("c", 1, 4, 9, 10, members)))
    assert "Committed:  9 of 10\n" in text
    assert f"   1   c1:1      leader       9     0   {UUID(int=1)}   caught up\n" in text
    assert f"   2   c2:1      follower     4     5   {UUID(int=2)}   5 behind\n" in text
    assert "   3   c3:1      follower     -     -   -                                      no answer yet\n" in text
    assert "Learners:\n" in text
    assert "Refused" not in text


def test_a_voter_that_does_not_answer_is_unreachable_though_it_has_all() -> None:
    members = (
        QuorumMember(1, None, "c1:1", True, 9, silent_ms=0),
        QuorumMember(2, None, "c2:1", True, 9, silent_ms=12_345, is_unreachable=True),
        QuorumMember(3, None, "c3:1", True, None, silent_ms=300),
    )
    quorum = quorum_resource(QuorumDescription("c", 1, 4, 9, 9, members))
    text = told(quorum)
    assert "   1   c1:1      leader       9     0   -           caught up\n" in text
    assert "   2   c2:1      follower     9     0   -           unreachable for 12s\n" in text
    assert "   3   c3:1      follower     -     -   -           no answer yet\n" in text
    assert [each["reachable"] for each in quorum["status"]["voters"]] == [True, False, True]
    (column,) = [each for each in QUORUM_COLUMNS if each.title == "UNREACHABLE"]
    assert column.cell(quorum) == [2]
    assert column.is_bad is not None
    assert column.is_bad(quorum)


def test_a_voter_that_is_refused_is_told_with_the_reason() -> None:
    members = (QuorumMember(1, UUID(int=1), "c1:1", True, 9), QuorumMember(2, None, "c2:1", True, 9, "from the past"))
    text = told(quorum_resource(QuorumDescription("c", 1, 4, 9, 10, members)))
    assert "Refused:    from the past\n" in text
    assert "   2   c2:1      follower     9     0   -                                      refused\n" in text
