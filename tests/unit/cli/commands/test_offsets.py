"""Where a group is to go on: as people write it, and as files do; what can be waited for; and who is asked first."""

from collections.abc import Callable
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner

from lograft.cli.commands.wait import CONDITIONS, find_condition
from lograft.cli.common.cluster_options import Settings
from lograft.cli.common.command_error import CommandError
from lograft.cli.common.nouns import Noun
from lograft.cli.common.prompts import confirm
from lograft.cli.main import cli
from lograft.cli.operations.offset_targets import (
    BadTarget,
    Bounds,
    Exactly,
    TopicChoice,
    nearest,
    offsets_resource,
    out_of_bounds,
    parse_target,
    parse_topic_choice,
    read_group_files,
)
from lograft.clients.admin.model.group_types import GroupOffset
from lograft.clients.times import Earliest, Latest, Moment
from lograft.clients.types import OffsetAndMetadata, TopicPartition

NOW_MS = 1_767_225_600_000  # 2026-01-01


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("earliest", Earliest()),
        ("latest", Latest()),
        ("-1h", Moment(NOW_MS - 3_600_000)),
        ("2026-01-01", Moment(NOW_MS)),
        ("1767225600000", Moment(NOW_MS)),
        ("0", Exactly(0)),
        ("999999999999", Exactly(999_999_999_999)),
    ],
)
def test_where_a_group_may_be_sent(text: str, expected: object) -> None:
    assert parse_target(text, NOW_MS) == expected


@pytest.mark.parametrize("text", ["", "yesterday", "-5", "+5", "12345678901234", "\u0665"])
def test_where_it_may_not(text: str) -> None:
    with pytest.raises(BadTarget, match="or an offset"):
        parse_target(text, NOW_MS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("orders", TopicChoice("orders", ())),
        ("orders:0", TopicChoice("orders", (0,))),
        ("orders:0,12", TopicChoice("orders", (0, 12))),
    ],
)
def test_topics_and_their_partitions(text: str, expected: TopicChoice) -> None:
    assert parse_topic_choice(text) == expected


@pytest.mark.parametrize("text", ["", ":0", "orders:", "orders:a", "orders:0,", "orders:-1", "topic/orders"])
def test_what_names_no_partitions_is_refused(text: str) -> None:
    with pytest.raises(BadTarget, match="such as orders or orders:0,2"):
        parse_topic_choice(text)


def test_an_offset_has_to_be_there_and_the_end_is() -> None:
    name = TopicPartition("orders", 0)
    bounds = {name: Bounds(5, 10)}
    assert [bool(out_of_bounds({name: offset}, bounds)) for offset in (4, 5, 10, 11)] == [True, False, False, True]
    assert out_of_bounds({name: 11}, bounds) == ["offset 11 of orders-0 is out of range 5 to 10"]
    assert [nearest(offset, bounds[name]) for offset in (0, 5, 7, 10, 11)] == [5, 5, 7, 10, 10]


# -- files


def test_what_is_exported_can_be_imported() -> None:
    offsets = {
        TopicPartition("a", 0): GroupOffset(7, 9, "note", None, 0),
        TopicPartition("b", 2): GroupOffset(0, None, "", 4, 0),
    }
    document = yaml.safe_load(yaml.safe_dump(offsets_resource("billing", offsets)))
    expected = {
        TopicPartition("a", 0): OffsetAndMetadata(7, "note"),
        TopicPartition("b", 2): OffsetAndMetadata(0, ""),
    }
    assert read_group_files([document]) == [("billing", expected)]
    other = offsets_resource("other", {})
    assert [each.group for each in read_group_files([{"kind": "List", "items": [document, other]}, None])] == [
        "billing",
        "other",
    ]


def spoilt(spoil: Callable[[Any], Any]) -> Any:
    document = offsets_resource("billing", {TopicPartition("a", 0): GroupOffset(7, 9, "", None, 0)})
    return spoil(document) or document


def entry(**changes: Any) -> Any:
    return spoilt(lambda document: document["spec"]["offsets"][0].update(changes))


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        ("text", "document 1 is 'text', not a resource"),
        (spoilt(lambda each: each.update(apiVersion="v1")), "apiVersion is 'v1', not lograft/v1"),
        (spoilt(lambda each: each.update(kind="Topic")), "kind is 'Topic', not GroupOffsets"),
        (spoilt(lambda each: each.update(metadata=None)), "metadata.name is None"),
        (spoilt(lambda each: each.update(spec={})), "spec.offsets is None"),
        (spoilt(lambda each: each["spec"]["offsets"].append(5)), r"spec.offsets\[1\] is 5"),
        (spoilt(lambda each: each["spec"]["offsets"].append(each["spec"]["offsets"][0])), "duplicate partition a-0"),
        (entry(topic=5), "topic is 5"),
        (entry(partition="0"), "partition is '0'"),
        (entry(partition=True), "partition is True"),
        (entry(offset=-1), "offset is -1"),
        (entry(offset=2**63), "offset is 9223372036854775808"),
        (entry(metadata=5), "metadata is 5"),
        (entry(leader=5), "unknown field 'leader'"),
        ({"kind": "List"}, "List has no items"),
        ({"kind": "List", "items": []}, "it contains no group"),
        ({"kind": "List", "items": [spoilt(lambda each: None)] * 2}, "more than once"),
    ],
)
def test_a_file_that_cannot_be_imported_is_told_where(document: Any, complaint: str) -> None:
    with pytest.raises(BadTarget, match=complaint):
        read_group_files([document])


# -- usage


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("reset group g --to latest", "pass --topic or --all-topics"),
        ("reset group g --to latest --topic t --all-topics", "pass --topic or --all-topics"),
        ("reset group --to latest --topic t", "exactly one group name"),
        ("reset group a b --to latest --topic t", "exactly one group name"),
        ("reset topic a --to latest --topic t", "unknown resource type 'topic'"),
        ("import group a b -f -", "only one name"),
        ("export group -o wide", "-o wide is not supported here: use yaml, json"),
        ("wait topic --for InSync", "name required"),
        ("wait topic/a --for Frozen", "use one of Exists, Online, InSync, Deleted"),
        ("offsets a --at tomorrow", "not a time"),
    ],
)
def test_what_makes_no_sense_is_refused_without_a_cluster(arguments: str, complaint: str) -> None:
    result = CliRunner().invoke(cli, arguments.split())
    assert result.exit_code == 2
    assert complaint in result.stderr


@pytest.mark.parametrize(
    "arguments",
    ["reset group g --topic t --to latest", "delete topic t", "delete g/x", "quorum remove 3", "import group -f -",
     "elect leaders --unclean --all"],
)  # fmt: skip
def test_scripts_have_to_say_yes_and_hear_so_at_once(arguments: str) -> None:
    result = CliRunner().invoke(cli, arguments.split())
    assert result.exit_code == 1
    assert "confirmation required, but stdin is not a terminal" in result.stderr
    assert "pass --yes" in result.stderr


def test_yes_is_not_asked_again() -> None:
    settings = Settings("127.0.0.1:1", 1000)
    confirm("Sure", settings, is_given=True)
    with pytest.raises(CommandError):
        confirm("Sure", settings, is_given=False)


# -- waiting


@pytest.mark.parametrize(
    ("noun", "text", "expected"),
    [
        (Noun.TOPIC, "InSync", "InSync"),
        (Noun.TOPIC, "condition=insync", "InSync"),
        (Noun.TOPIC, "delete", "Deleted"),
        (Noun.TOPIC, "created", "Exists"),
        (Noun.TOPIC, "online", "Online"),
        (Noun.PARTITION, "online", "Leader"),
        (Noun.BROKER, "active", "Alive"),
        (Noun.GROUP, "CAUGHTUP", "CaughtUp"),
    ],
)
def test_conditions_go_by_several_names(noun: Noun, text: str, expected: str) -> None:
    assert find_condition(noun, text) == (expected, CONDITIONS[noun][expected])


@pytest.mark.parametrize(("noun", "text"), [(Noun.TOPIC, "stable"), (Noun.GROUP, "insync"), (Noun.QUORUM, "")])
def test_what_a_thing_cannot_be_is_refused_with_what_it_can(noun: Noun, text: str) -> None:
    with pytest.raises(click.UsageError, match=", ".join(CONDITIONS[noun])):
        find_condition(noun, text)


def test_help_names_every_condition() -> None:
    text = CliRunner().invoke(cli, ["wait", "--help"]).output
    assert all(name in text for conditions in CONDITIONS.values() for name in conditions)
