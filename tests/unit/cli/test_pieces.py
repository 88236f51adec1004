"""What the commands are made of: times, nouns, formats, verdicts; and how they refuse what makes no sense."""

import asyncio
import io
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import cast
from uuid import UUID

import click
import pytest
import yaml
from click.testing import CliRunner

from lograft.cli.commands.verify import verdict
from lograft.cli.common import cluster_options as cli_options
from lograft.cli.common.cluster_options import Settings
from lograft.cli.common.command_error import CommandError
from lograft.cli.common.nouns import Noun, parse_nouns, parse_types
from lograft.cli.dump.json_output import bytes_as_json
from lograft.cli.main import cli
from lograft.cli.output.resource_output import write_resources
from lograft.cli.records.record_output import make_writer
from lograft.cli.resources.cluster_health import (
    broker_problems,
    cluster_problems,
    drained_warnings,
    partition_problems,
    quorum_problems,
    silent_problems,
    summarize,
)
from lograft.cli.resources.cluster_resources import (
    BROKER_COLUMNS,
    PARTITION_COLUMNS,
    TOPIC_COLUMNS,
    broker_resource,
    partition_resource,
    quorum_resource,
    topic_resource,
)
from lograft.cli.resources.config_resources import Owner, entry_resource, parse_setting
from lograft.cli.resources.disk_resources import with_loads
from lograft.cli.resources.node_resources import node_resource, nodes
from lograft.clients.admin.cluster_admin import ClusterAdmin
from lograft.clients.admin.model.types import (
    BrokerDescription,
    BrokerState,
    ClusterDescription,
    ConfigEntry,
    ConfigKind,
    PartitionDescription,
    QuorumDescription,
    QuorumMember,
    ReplicaDescription,
    TopicDescription,
)
from lograft.clients.errors import TimedOut
from lograft.clients.times import BadTime, Earliest, Latest, Moment, iso_time, parse_duration, parse_moment
from lograft.storage.batch.codec import Record

NOW_MS = 1_767_225_600_000  # 2026-01-01

PARTITION = PartitionDescription("orders", 0, 1, 3, (1, 2, 3), (1, 2, 3), (), (), (), None)
TOPIC = TopicDescription(UUID(int=5), "orders", False, (PARTITION,), {"retention.ms": "1000"})
BROKERS = tuple(BrokerDescription(n, f"b{n}:1", None, BrokerState.ACTIVE, 10 + n, ()) for n in (1, 2, 3))
CLUSTER = ClusterDescription("c", 1, BROKERS, (TOPIC,))
VOTERS = tuple(QuorumMember(n, UUID(int=n), f"c{n}:1", True, 9) for n in (1, 2, 3))
QUORUM = QuorumDescription("c", 1, 4, 9, 9, VOTERS)


# -- times


@pytest.mark.parametrize(
    ("text", "expected"), [("500ms", 500), ("5s", 5000), ("10m", 600_000), ("1h", 3_600_000), ("2d", 172_800_000)]
)
def test_durations(text: str, expected: int) -> None:
    assert parse_duration(text) == expected


@pytest.mark.parametrize("text", ["", "5", "s", "-5s", "5 s", "1.5s", "5sec", "\u0665s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(BadTime, match="500ms, 5s"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("earliest", Earliest()),
        ("latest", Latest()),
        ("now", Moment(NOW_MS)),
        ("-10m", Moment(NOW_MS - 600_000)),
        ("-999999999999d", Moment(0)),
        ("0001-01-01T00:00+14:00", Moment(0)),
        ("1767225600000", Moment(NOW_MS)),
        ("2026-01-01T00:00Z", Moment(NOW_MS)),
        ("2026-01-01", Moment(NOW_MS)),
        ("2026-01-01T02:00:00.5+02:00", Moment(NOW_MS + 500)),
    ],
)
def test_moments(text: str, expected: Earliest | Latest | Moment) -> None:
    assert parse_moment(text, NOW_MS) == expected


@pytest.mark.parametrize("text", ["", "tomorrow", "10m", "1767225600", "2026-13-01", "20260101", "-10", "+5m"])
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(BadTime, match="earliest, latest, now"):
        parse_moment(text, NOW_MS)


def test_a_time_that_no_calendar_has_is_told_in_milliseconds() -> None:
    assert iso_time(NOW_MS + 5) == "2026-01-01T00:00:00.005Z"
    assert iso_time(2**62) == str(2**62)


# -- nouns


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["topics"], (Noun.TOPIC, [])),
        (["t", "a", "b"], (Noun.TOPIC, ["a", "b"])),
        (["Broker", "1"], (Noun.BROKER, ["1"])),
        (["topic/a", "t/b"], (Noun.TOPIC, ["a", "b"])),
        (["quorum"], (Noun.QUORUM, [])),
        (["p", "orders"], (Noun.PARTITION, ["orders"])),
    ],
)
def test_nouns_have_many_names(words: Sequence[str], expected: tuple[Noun, list[str]]) -> None:
    assert parse_nouns(words, list(Noun)) == expected


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["topcs"], "did you mean 'topics'"),
        (["xyz"], "use one of topic, topics, t"),
        (["topic/a", "b"], "TYPE/NAME"),
        (["topic/a", "broker/1"], "only one resource type"),
        (["topic/"], "TYPE/NAME"),
    ],
)
def test_what_is_no_noun_is_refused(words: Sequence[str], complaint: str) -> None:
    with pytest.raises(click.UsageError, match=complaint):
        parse_nouns(words, list(Noun))


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["topics", "a", "topic/b", "t/c"], ["a", "b", "c"]),
        (["brokers", "b/1"], ["1"]),
        (["topics", "broker/1"], ["broker/1"]),
        (["groups", "group/a"], ["group/a"]),
        (["configs", "topic/a"], ["topic/a"]),
    ],
)
def test_a_name_may_have_its_noun_before_it_once_more_where_no_name_is_so(
    words: Sequence[str], names: list[str]
) -> None:
    assert parse_nouns(words, list(Noun))[1] == names


@pytest.mark.parametrize(
    ("text", "owner", "keys"),
    [
        ("cluster", "cluster", []),
        ("cluster/num.partitions", "cluster", ["num.partitions"]),
        ("topic/orders", "topic/orders", []),
        ("t/orders/retention.ms", "topic/orders", ["retention.ms"]),
        ("broker/1/log.level", "broker/1", ["log.level"]),
    ],
)
def test_a_setting_is_named_as_its_name_is_shown(text: str, owner: str, keys: list[str]) -> None:
    found, found_keys = parse_setting(text)
    assert (str(found), found_keys) == (owner, keys)


def test_a_noun_that_a_verb_cannot_do_is_refused() -> None:
    with pytest.raises(click.UsageError, match="'quorum'"):
        parse_nouns(["quorum"], [Noun.TOPIC])


# -- output


def show(output: str, *, is_one: bool = False, has_titles: bool = True) -> str:
    out = io.StringIO()
    settings = Settings("b:1", 1000, output=output, has_titles=has_titles)
    resources = [topic_resource(TOPIC), topic_resource(replace(TOPIC, name="a-longer-name", config={}))]
    write_resources(out, resources[:1] if is_one else resources, TOPIC_COLUMNS, settings, is_one=is_one)
    return out.getvalue()


def test_a_table_is_aligned() -> None:
    assert show("table") == (
        "NAME            PARTITIONS   REPLICAS   UNDER-REPLICATED   OFFLINE\n"
        "orders                   1          3                  0         0\n"
        "a-longer-name            1          3                  0         0\n"
    )
    assert show("table", has_titles=False).splitlines()[0].split() == ["orders", "1", "3", "0", "0"]
    wide = show("wide").splitlines()
    assert "CONFIG" in wide[0]
    assert wide[1].endswith("retention.ms=1000")
    assert wide[2].endswith("-")


def test_names_can_be_given_to_other_commands() -> None:
    assert show("name") == "topic/orders\ntopic/a-longer-name\n"


def test_documents_are_resources_or_lists_of_them() -> None:
    many = json.loads(show("json"))
    assert (many["apiVersion"], many["kind"], len(many["items"])) == ("lograft/v1", "List", 2)
    one = json.loads(show("json", is_one=True))
    assert one == many["items"][0]
    assert one == yaml.safe_load(show("yaml", is_one=True))
    assert one["spec"] == {"partitions": 1, "replicas": 3, "config": {"retention.ms": "1000"}}
    assert one["metadata"]["name"] == "orders"


@pytest.mark.parametrize(
    ("partition", "replicas"),
    [
        (PARTITION, 3),
        (replace(PARTITION, replicas=(1, 2, 3, 4), adding=(4,)), 4),
        (replace(PARTITION, removing=(3,)), 2),
        (replace(PARTITION, replicas=(1, 2, 3, 4), adding=(4,), removing=(2,)), 3),
    ],
)
def test_a_topics_spec_has_the_replicas_that_were_asked_for(partition: PartitionDescription, replicas: int) -> None:
    assert topic_resource(replace(TOPIC, partitions=(partition,)))["spec"]["replicas"] == replicas


def test_a_setting_says_what_is_set_and_what_is_in_force() -> None:
    entry = ConfigEntry("min.insync.replicas", "2", "topic", "2", "Number of partitions.", "integer", setting="3")
    told = entry_resource(Owner(ConfigKind.TOPIC, "orders"), entry)
    assert (told["metadata"]["name"], told["spec"]) == ("topic/orders/min.insync.replicas", {"value": "3"})
    assert (told["status"]["value"], told["status"]["source"]) == ("2", "topic")


def test_a_partition_says_all_that_is_promised_and_null_for_what_cannot_be_had() -> None:
    offline = replace(PARTITION, leader=None, isr=())
    led = ReplicaDescription(PARTITION.name, 1, True, 3, 5, 12, 10, 4096, UUID(int=7))
    assert partition_resource(PARTITION, led)["metadata"] == {"name": "orders-0", "topic": "orders", "partition": 0}
    status = partition_resource(PARTITION, led)["status"]
    promised = ("leader", "leaderEpoch", "replicas", "isr", "startOffset", "endOffset", "highWatermark", "bytes")
    assert [status[name] for name in promised] == [1, 3, [1, 2, 3], [1, 2, 3], 5, 12, 10, 4096]
    status = partition_resource(offline)["status"]
    assert [status[name] for name in promised] == [None, 3, [1, 2, 3], [], None, None, None, None]
    out = io.StringIO()
    write_resources(out, [partition_resource(offline)], PARTITION_COLUMNS, Settings("b", 1), is_one=False)
    assert out.getvalue().splitlines()[1].split() == ["orders", "0", "-", "3", "1,2,3", "-"]


def test_brokers_and_the_quorum_say_all_that_is_promised() -> None:
    broker = broker_resource(BROKERS[0], CLUSTER)
    assert broker["spec"] == {"address": "b1:1", "rack": None}
    assert (broker["status"]["state"], broker["status"]["leaders"], broker["status"]["replicas"]) == ("active", 1, 1)
    out = io.StringIO()
    write_resources(out, [broker], BROKER_COLUMNS, Settings("b", 1), is_one=False)
    assert out.getvalue().splitlines()[1].split() == ["1", "b1:1", "active", "-", "1", "1"]
    assert broker["status"]["version"] is None
    status = quorum_resource(replace(QUORUM, commit_index=12))["status"]
    assert (status["leader"], status["term"], status["commitIndex"]) == (1, 4, 12)
    assert [(voter["id"], voter["lag"]) for voter in status["voters"]] == [(1, 3), (2, 3), (3, 3)]


def test_brokers_of_a_cluster_being_upgraded_show_what_each_runs() -> None:
    old, new = BROKERS[0], replace(BROKERS[1], version="1.2.3", address="[::1]:9092")
    resources = with_loads([broker_resource(each, CLUSTER) for each in (old, new)], [])
    out = io.StringIO()
    write_resources(out, resources, BROKER_COLUMNS, Settings("b", 1, output="wide"), is_one=False)
    titles, *rows = [re.split(r"\s{2,}", line.strip()) for line in out.getvalue().splitlines()]
    shown = [[row[titles.index(title)] for title in ("ID", "VERSION", "HOST")] for row in rows]
    assert shown == [["1", "<unknown>", "b1"], ["2", "1.2.3", "[::1]"]]


# -- verifying


@pytest.mark.parametrize(
    ("brokers", "damaged", "left_out", "expected"),
    [
        ([1, 2, 3], [], [], "same"),
        ([1, 3], [2], [], "same; the copy of broker 2 was damaged and is being rebuilt"),
        ([1, 3], [], [2], "same; not compared, because not in sync: broker 2"),
        ([1], [1], [], "CRC; the copy of broker 1 is damaged, and no other replica is in sync"),
    ],
)
def test_what_came_of_comparing_copies_is_told(
    brokers: list[int], damaged: list[int], left_out: list[int], expected: str
) -> None:
    problem = "CRC" if damaged == brokers else None
    status = {"brokers": brokers, "damaged": damaged, "leftOut": left_out, "problem": problem, "undecodable": []}
    assert verdict(status) == expected


# -- health


def test_a_cluster_where_all_is_in_sync_has_no_problems() -> None:
    assert partition_problems(CLUSTER) == []
    assert quorum_problems(QUORUM, None, "") == []


@pytest.mark.parametrize(
    ("partition", "problem"),
    [
        (replace(PARTITION, isr=(1, 2)), "partition orders-0 is under-replicated; not in sync: 3 (active)"),
        (replace(PARTITION, leader=None, isr=()), "partition orders-0 has no leader; not in sync: 1 (active), "),
        (replace(PARTITION, replicas=(1, 2, 3, 4)), "not in sync: 4 (not registered)"),
    ],
)
def test_partitions_that_are_not_whole_are_named(partition: PartitionDescription, problem: str) -> None:
    topic = replace(TOPIC, is_internal=True, partitions=(partition,))
    (found,) = partition_problems(replace(CLUSTER, topics=(topic,)))
    assert problem in found


def test_what_many_partitions_of_a_topic_have_is_said_once() -> None:
    missing = [replace(PARTITION, number=number, isr=(1, 2)) for number in range(4)]
    partitions = (*missing, replace(PARTITION, number=4, leader=None, isr=(1, 3)), replace(PARTITION, number=5))
    found = partition_problems(replace(CLUSTER, topics=(replace(TOPIC, partitions=partitions),)))
    assert found == [
        "4 of 6 partitions of topic orders are under-replicated; not in sync: 3 (active)",
        "partition orders-4 has no leader; not in sync: 2 (active)",
    ]


@pytest.mark.parametrize(
    ("quorum", "committed", "problem"),
    [
        (None, None, "is unreachable: nobody there"),
        (replace(QUORUM, leader_id=None), None, "no leader"),
        (replace(QUORUM, commit_index=10), None, "voter 1 at c1:1 is behind: at 9 of 10"),
        (replace(QUORUM, members=(*VOTERS[:2], replace(VOTERS[2], match_index=None))), None, "voter 3"),
    ],
)
def test_a_quorum_that_is_not_whole_is_told(
    quorum: QuorumDescription | None, committed: int | None, problem: str
) -> None:
    assert problem in quorum_problems(quorum, committed, "nobody there")[0]


def test_a_voter_whose_store_is_from_the_past_is_a_problem_even_if_it_has_all() -> None:
    voters = (replace(VOTERS[0], refusal="from the past; `lograft quorum replace 1`"), *VOTERS[1:])
    (problem,) = quorum_problems(replace(QUORUM, members=voters), None, "")
    assert problem == "voter 1 at c1:1 is refused: from the past; `lograft quorum replace 1`"


@pytest.mark.parametrize(
    ("match_index", "problem"),
    [
        (9, "it has not answered the leader, voter 1, for 12s"),
        (None, "it has not answered since voter 1 was elected, 12s ago"),
    ],
)
def test_a_voter_that_does_not_answer_is_a_problem_even_if_it_has_all(match_index: int | None, problem: str) -> None:
    down = replace(VOTERS[2], match_index=match_index, silent_ms=12_345, is_unreachable=True)
    found = quorum_problems(replace(QUORUM, members=(*VOTERS[:2], down)), None, "")
    remedy = "start it, restart it if it hangs, or check the network to it"
    assert found == [f"voter 3 at c3:1 is unreachable: {problem}; {remedy}"]


DOWN = replace(CLUSTER, brokers=(*BROKERS[:2], replace(BROKERS[2], state=BrokerState.FENCED)))


def lacking_broker_3(*leaders: int | None) -> ClusterDescription:
    """Partitions that broker 3 hosts and is not in sync with, and that are led so."""
    partitions = tuple(
        replace(PARTITION, number=number, leader=leader, isr=() if leader is None else (1, 2))
        for number, leader in enumerate(leaders)
    )
    return replace(DOWN, topics=(replace(TOPIC, partitions=partitions),))


def test_a_broker_that_is_down_is_the_cause_of_all_that_it_lacks() -> None:
    (problem,) = cluster_problems(lacking_broker_3(1, 2, 1, 1, 2), QUORUM, [])
    assert problem == (
        f"broker 3 at {BROKERS[2].address} is down: 5 partitions under-replicated, none offline; "
        "start it, restart it if it hangs, or check the network to it"
    )


def test_partitions_that_only_a_broker_that_is_down_could_lead_are_counted_as_offline() -> None:
    alone = replace(PARTITION, replicas=(3,), leader=None, isr=())
    (problem,) = broker_problems(replace(DOWN, topics=(replace(TOPIC, partitions=(alone,)),)))
    assert "is down: 1 partition under-replicated, 1 offline; start it" in problem


def test_a_partition_that_lacks_an_active_broker_too_is_named() -> None:
    found = cluster_problems(lacking_broker_3(1, None), QUORUM, [])
    assert "2 partitions under-replicated, 1 offline" in found[0]
    assert found[1:] == ["partition orders-1 has no leader; not in sync: 1 (active), 2 (active), 3 (fenced)"]


def test_a_fenced_broker_that_answers_is_not_called_down() -> None:
    (problem,) = broker_problems(lacking_broker_3(1), answered=[3])
    assert "is fenced, but answers: 1 partition" in problem
    assert "it is starting" in problem


def test_a_broker_that_was_drained_and_stopped_is_a_warning() -> None:
    drained = replace(DOWN, topics=())
    assert cluster_problems(drained, QUORUM, []) == []
    (warning,) = drained_warnings(drained)
    assert "is down and hosts no replicas" in warning
    assert "`lograft delete broker 3`" in warning
    assert drained_warnings(CLUSTER) == drained_warnings(lacking_broker_3(1)) == []
    assert "3 brokers (1 not active), 0 topics" in summarize(drained, QUORUM)
    assert "not active" not in summarize(CLUSTER, QUORUM)


def test_without_a_quorum_brokers_that_do_not_answer_are_named_with_what_cannot_fail_over() -> None:
    (problem,) = silent_problems(lacking_broker_3(2, 2, 1), [1, 3], has_quorum=False)
    assert problem.startswith(
        f"broker 2 at {BROKERS[1].address} does not answer: the 2 partitions that it leads cannot"
    )
    (problem,) = silent_problems(lacking_broker_3(2, 2, 1), [1, 3], has_quorum=True)
    assert problem.startswith(f"broker 2 at {BROKERS[1].address} does not answer; start it")


def test_a_lost_majority_comes_first() -> None:
    first, *others = cluster_problems(lacking_broker_3(1), None, [], trouble="no answer within 2s")
    assert first.startswith("the metadata quorum has no majority, or is unreachable: no answer within 2s; start")
    assert len(others) == 3, "and the brokers that do not answer"


def test_a_voter_that_has_what_was_committed_before_is_not_behind() -> None:
    assert quorum_problems(replace(QUORUM, commit_index=12), 9, "") == []
    learner = QuorumMember(4, None, "c4:1", False, None)
    assert quorum_problems(replace(QUORUM, members=(*VOTERS, learner)), None, "") == []


# -- records

RECORD = Record("orders", 2, 7, NOW_MS, b"k", b"v\xff", (("a", b"1"), ("b", None)))


class Pipe(io.TextIOWrapper):
    """Standard output that is no terminal."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8")

    def content(self) -> bytes:
        self.flush()
        assert isinstance(self.buffer, io.BytesIO)
        return self.buffer.getvalue()


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        (None, b"v\xff\n"),
        (r"%t/%p@%o %k=%v %T %h %%\n", b"orders/2@7 k=v\xff 2026-01-01T00:00:00.000Z a=1,b= %\n"),
        (r"%o\t%k", b"7\tk"),
        (r"a\\n", b"a\\n"),
        (r"%{v:hex} %{v:base64} %{v:json}\x41", b'76ff dv8= {"base64": "dv8="}A'),
        (r"%{k} %{k:json} %{T:ms}", b'k "k" %d' % NOW_MS),
        ("%{h:json}", b'[{"key": "a", "value": "1"}, {"key": "b", "value": null}]'),
        ("\udcff%k", b"\xffk"),
    ],
)
def test_records_are_written_as_the_format_says_bytes_as_they_are(form: str | None, expected: bytes) -> None:
    out = Pipe()
    make_writer(out, form, is_json=False).write([RECORD])  # type: ignore[list-item]
    assert out.content() == expected


def test_nulls_are_written_as_nothing() -> None:
    out = Pipe()
    make_writer(out, "%k|%v", is_json=False).write([RECORD._replace(key=None, value=None)])  # type: ignore[arg-type, list-item]
    assert out.content() == b"|"


def test_values_alone_are_written_fast_and_nulls_all_the_same_as_nothing() -> None:
    out = Pipe()
    writer = make_writer(out, None, is_json=False)
    for values in ([], [b"a", b"", b"b"], [b"c", None]):
        writer.write([RECORD._replace(value=value) for value in values])  # type: ignore[arg-type, misc]
    assert out.content() == b"a\n\nb\nc\n\n"


@pytest.mark.parametrize("form", ["%x", "%{x}", "%{v:octal}", "%{v", "%"])
def test_a_format_that_means_nothing_is_refused(form: str) -> None:
    with pytest.raises(click.UsageError, match=form):
        make_writer(io.StringIO(), form, is_json=False)


def test_records_as_json_are_an_object_a_line() -> None:
    out = Pipe()
    make_writer(out, None, is_json=True).write([RECORD])  # type: ignore[list-item]
    assert json.loads(out.content()) == {
        "topic": "orders",
        "partition": 2,
        "offset": 7,
        "timestamp": NOW_MS,
        "key": "k",
        "value": {"base64": "dv8="},
        "headers": [{"key": "a", "value": "1"}, {"key": "b", "value": None}],
    }


@pytest.mark.parametrize("content", [None, b"", b"a", b'"\\', b"\x7f", "ä\u2028".encode(), b"\xff", b"\t\r\n", b"\0"])
def test_json_is_what_its_library_makes_of_it(content: bytes | None) -> None:
    out = Pipe()
    make_writer(out, None, is_json=True).write([RECORD._replace(key=content, value=content)])  # type: ignore[arg-type, list-item]
    fields = json.loads(out.content())
    assert fields["key"] == fields["value"] == bytes_as_json(content)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_json_on_a_terminal_does_nothing_to_it_and_is_the_same() -> None:
    out = Terminal()
    make_writer(out, None, is_json=True).write([RECORD._replace(topic="a\x7f\x9b\U000e0001b", value=b"\xc3\xa4")])  # type: ignore[list-item]
    assert out.getvalue().rstrip("\n").isprintable()
    assert "ä" in out.getvalue()
    assert json.loads(out.getvalue())["topic"] == "a\x7f\x9b\U000e0001b"


def test_a_terminal_is_spared_what_would_do_something_to_it() -> None:
    out = Terminal()
    make_writer(out, None, is_json=False).write([RECORD._replace(value=b"\x1b[31mred\xff\tok")])  # type: ignore[list-item]
    assert out.getvalue() == "\\x1b[31mred\\xff\tok\n"


# -- usage


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["get"], "Missing argument"),
        (["get", "nonsense"], "unknown resource type"),
        (["get", "topics", "-o", "xml"], "xml"),
        (["-o", "xml", "get", "topics"], "xml"),
        (["get", "topics", "--timeout", "5"], "500ms, 5s"),
        (["--timeout", "0s", "get", "topics"], "not a positive duration"),
        (["create", "topic"], "name required"),
        (["create", "quorum"], "'quorum'"),
        (["create", "topic", "a", "--config", "x"], "KEY=VALUE"),
        (["get", "broker", "one"], "use a number"),
        (["describe", "b/x"], "use a number"),
        (["get", "quorum", "mine", "yours"], "only one quorum"),
        (["describe", "quorum", "mine", "yours"], "only one quorum"),
        (["wait", "quorum/mine", "--for", "Leader"], "the quorum takes no name"),
        (["create", "topic", "a", "--partitions", "99999999999"], "99999999999"),
        (["create", "topic", "a", "--replicas", "99999999999"], "99999999999"),
        (["delete", "broker", "99999999999", "--yes"], "not a broker id"),
        (["produce", "t", "--timeout", "2h"], "limited to 1h"),
        (["consume", "t", "--offsets", "0:5-2"], "ends before it starts"),
        (["delete", "topic"], "required"),
        (["produce", "t", "--key", "a", "--key-field", "b"], "cannot be combined"),
        (["produce", "t", "--header", "a"], "NAME=VALUE"),
        (["consume", "t", "--from", "tomorrow"], "earliest, latest"),
        (["consume", "t", "--offsets", "0:b-c"], "0:100-200"),
        (["consume", "t", "--offsets", "0:1-2", "--from", "-10m"], "cannot be combined with --from"),
        (["consume", "t", "-o", "yaml"], "json"),
        (["consume", "t", "-o", "json", "-f", "%v"], "cannot be combined"),
        (["consume", "t", "-f", "%x"], "%x"),
        (["consume", "t", "--tail", "5", "--from", "-10m"], "--from and --tail cannot"),
        (["consume", "t", "u", "--offsets", "0:1-2"], "exactly one topic"),
        (["consume", "t", "--offsets", "0:1-2", "--offsets", "0:5"], "one range"),
        (["consume", "t", "--from", "-10m", "--to", "-20m"], "--to is before --from"),
        (["consume", "t", "--group", "g", "--tail", "5"], "starts at the group's committed offsets"),
        (["produce", "t", "--key-separator", ""], "--key-separator is empty"),
        (["produce", "t", "--key-separator", ":", "--tombstone"], "cannot be combined"),
        (["produce", "t", "--input", "json", "--key-field", "id"], "set it in the records"),
        (["produce", "t", "--rate", "0"], "1000/s"),
        (["produce", "t", "--rate", "fast"], "1000/s"),
        (["produce", "t", "--file", "/nowhere"], "/nowhere"),
        (["reassign", "plan", "--brokers", "1,x"], "use a number"),
        (["reassign", "plan", "--replicas", "0"], "--replicas"),
        (["reassign", "run", "orders", "-f", "-"], "cannot be combined with topics"),
        (["reassign", "run", "-f", "/nowhere/plan.yaml"], "/nowhere/plan.yaml"),
        (["reassign", "cancel"], "pass --all"),
        (["reassign", "cancel", "orders", "--all"], "pass --all"),
        (["drain", "broker"], "required"),
        (["drain", "broker", "x"], "use a number"),
        (["drain", "topic", "x"], "unknown resource type 'topic'"),
        (["scale", "topic"], "required"),
        (["scale", "topic", "orders"], "--partitions or --replicas"),
        (["scale", "topic", "orders", "--partitions", "2", "--replicas", "2"], "pass either"),
        (["config", "set", "topic/orders"], "KEY=VALUE"),
        (["config", "set", "topic/orders", "retention.ms"], "is not KEY=VALUE"),
        (["config", "set", "topic/orders", "a=1", "a=2"], "a is set twice"),
        (["config", "set", "orders", "a=1"], "use topic/NAME, broker/ID or cluster"),
        (["config", "set", "broker/x", "a=1"], "use a number"),
        (["config", "unset", "topic/orders", "a=1"], "pass the key alone"),
        (["get", "configs", "orders"], "use topic/NAME"),
        (["describe", "config", "topic/"], "use topic/NAME"),
        (["elect", "leaders"], "--preferred or --unclean"),
        (["elect", "leaders", "--preferred", "--unclean"], "pass either"),
        (["elect", "leaders", "--unclean"], "may lose records"),
        (["elect", "leaders", "--preferred", "--all", "orders"], "cannot be combined with names"),
        (["quorum", "add", "x"], "use a number"),
        (["quorum", "transfer"], "Missing argument"),
    ],
)
def test_wrong_usage_is_told_before_any_cluster_is_asked(arguments: list[str], complaint: str) -> None:
    result = CliRunner().invoke(cli, ["--bootstrap", "127.0.0.1:1", *arguments])
    assert result.exit_code == 2, result.stderr
    assert complaint in result.stderr


@pytest.mark.parametrize("arguments", [["get", "topics"], ["produce", "t"], ["consume", "t", "--exit"], ["health"]])
def test_a_cluster_that_nobody_ever_saw_is_not_looked_for_long(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli_options, "_FIRST_CONTACT_MS", 200)
    result = CliRunner().invoke(cli, ["--bootstrap", "127.0.0.1:1", *arguments])
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: no broker answered within 200 ms (127.0.0.1:1: ")
    assert "Remedy: start a cluster" in result.stderr


@pytest.mark.parametrize("arguments", [["get", "topic"], ["create", "topic"], ["produce"], ["consume", "--exit"]])
def test_a_name_that_is_no_text_is_refused(arguments: list[str]) -> None:
    result = CliRunner().invoke(cli, [*arguments, "\udcff", "--bootstrap", "127.0.0.1:1", "--timeout", "200ms"])
    assert result.exit_code == 1
    assert result.stderr.startswith(r"Error: the topic is '\udcff': give its name")


@pytest.mark.parametrize(
    ("verb", "is_in_doubt"),
    [("get", False), ("describe", False), ("health", False), ("consume", False), ("create", True), ("reset", True)],
)
def test_only_of_what_changes_something_it_is_said_that_it_may_have_been_done(verb: str, is_in_doubt: bool) -> None:
    root = click.Context(cli, info_name="lograft")
    with click.Context(click.Command(verb), parent=root, info_name=verb):
        told = cli_options.explain(TimedOut("nobody answers"), Settings("b", 1))
    assert ("change may have been made" in told.remedy) is is_in_doubt
    assert ("with `lograft health`" in told.remedy) is not is_in_doubt


@pytest.mark.parametrize(
    "arguments",
    [
        ["--debug", "get", "topics"],
        ["get", "topics", "--debug"],
        ["config", "set", "cluster", "a=1", "--debug"],
        ["diff", "--debug", "-f", "-"],
    ],
)
def test_a_traceback_is_shown_to_whoever_asks_for_it(arguments: list[str]) -> None:
    text = "apiVersion: lograft/v1\nkind: Topic\nmetadata: {name: a}\n"
    nowhere = ["--bootstrap", "127.0.0.1:1", "--timeout", "100ms"]
    result = CliRunner().invoke(cli, [*nowhere, *arguments], input=text)
    assert result.exit_code == (2 if "diff" in arguments else 1)
    assert "Traceback (most recent call last)" in result.stderr
    assert "NoBrokerAvailable" in result.stderr
    assert "\nRemedy: start a cluster" in result.stderr
    plain = CliRunner().invoke(cli, [*nowhere, *(each for each in arguments if each != "--debug")], input=text)
    assert plain.stderr.count("\n") == 2


def test_deleting_is_confirmed_by_who_is_not_at_a_terminal() -> None:
    result = CliRunner().invoke(cli, ["delete", "topic", "orders", "--bootstrap", "127.0.0.1:1"])
    assert result.exit_code == 1
    assert "--yes" in result.stderr


# -- several types at once


@pytest.mark.parametrize(
    ("words", "nouns"),
    [
        (["topics,b"], [Noun.TOPIC, Noun.BROKER]),
        (["topics,t"], [Noun.TOPIC]),
        (["all"], [Noun.BROKER, Noun.TOPIC]),
        (["all,topics"], [Noun.BROKER, Noun.TOPIC]),
        (["topics", "a,b"], []),
        (["topic/a,b"], []),
    ],
)
def test_types_are_listed_with_commas_or_as_all(words: list[str], nouns: list[Noun]) -> None:
    assert parse_types(words, list(Noun), [Noun.BROKER, Noun.TOPIC]) == nouns


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["cluster", "c"], "the cluster takes no name: remove 'c'"),
        (["all", "orders"], "cannot be combined with names: remove 'orders'"),
        (["topics,brokers", "-w"], "-w supports one resource type at a time"),
        (["topics,contexts"], "contexts are local and cannot be combined"),
        (["topics,clusters"], "unknown resource type 'clusters'"),
        (["topics,brokers", "--lagging"], "--lagging applies to groups, not to topics"),
    ],
)
def test_several_types_have_neither_names_nor_a_watch(words: list[str], told: str) -> None:
    result = CliRunner().invoke(cli, ["--bootstrap", "h:1", "describe" if words[0] == "cluster" else "get", *words])
    assert (result.exit_code, result.stdout) == (2, "")
    assert told in result.stderr


def test_a_node_is_a_broker_a_controller_or_both() -> None:
    both = node_resource(1, BROKERS[0], VOTERS[0], QUORUM)
    assert both["spec"]["roles"] == ["controller", "broker"]
    assert both["status"] == {"broker": "active", "controller": "leader"}
    alone = node_resource(3, None, replace(VOTERS[2], is_unreachable=True), QUORUM)
    assert (alone["spec"]["roles"], alone["status"]["controller"]) == (["controller"], "voter,unreachable")
    assert node_resource(2, BROKERS[1], None, None)["status"] == {"broker": "active", "controller": None}


class OneCluster:
    async def describe_cluster(self) -> ClusterDescription:
        return CLUSTER

    async def describe_quorum(self) -> QuorumDescription:
        return QUORUM


def test_a_node_that_does_not_exist_is_refused() -> None:
    admin = cast(ClusterAdmin, OneCluster())
    assert [each["metadata"]["id"] for each in asyncio.run(nodes(admin, []))] == [1, 2, 3]
    with pytest.raises(CommandError, match="unknown node 9") as refusal:
        asyncio.run(nodes(admin, ["9"]))
    assert refusal.value.remedy == "list nodes with `lograft get nodes`"


def test_the_version_is_a_command() -> None:
    result = CliRunner().invoke(cli, ["version", "-o", "jsonpath={.status.version}"])
    assert CliRunner().invoke(cli, ["version"]).stdout == f"lograft {result.stdout}\n"
