"""Plans in files, and reassignments under way, as people and programs see them."""

import io
import json
from uuid import UUID

import pytest
import yaml

from lograft.cli.common.cluster_options import Settings
from lograft.cli.output.resource_output import write_resources
from lograft.cli.resources.reassignment_resources import (
    MOVE_COLUMNS,
    PROGRESS_COLUMNS,
    BadPlan,
    move_resource,
    progress_resource,
    read_plan,
    summary_of,
)
from lograft.clients.admin.model.types import Reassignment, ReplicaDescription
from lograft.clients.admin.planning.reassignment_plan import Move
from lograft.clients.types import TopicPartition

NAME = TopicPartition("orders", 0)
MOVES = [Move(NAME, (1, 2, 3), (1, 2, 4)), Move(TopicPartition("orders", 1), (2, 3), (3, 2))]
UNDER_WAY = Reassignment(NAME, (1, 2, 3, 4), (1, 2, 4), adding=(4,), adding_in_sync=(), removing=(3,))


def written(output: str) -> str:
    out = io.StringIO()
    resources = [move_resource(move) for move in MOVES]
    write_resources(out, resources, MOVE_COLUMNS, Settings("b:1", 1, output=output), is_one=False)
    return out.getvalue()


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_what_is_written_is_read_back(output: str) -> None:
    assert read_plan(written(output)) == {move.partition: (move.before, move.after) for move in MOVES}


def test_a_plan_for_people() -> None:
    assert written("table") == (
        "PARTITION   FROM    TO\norders-0    1,2,3   1,2,4\norders-1    2,3     3,2\n"
    )  # fmt: skip
    assert written("wide").splitlines()[1].split() == ["orders-0", "1,2,3", "1,2,4", "4", "3"]
    assert written("name") == "reassignment/orders-0\nreassignment/orders-1\n"
    assert summary_of(MOVES) == "2 partitions would change: 1 replica to copy, 1 preferred leader to change"


def test_a_plan_by_hand_may_be_one_and_need_not_say_from_where() -> None:
    text = """
        apiVersion: lograft/v1
        kind: Reassignment
        metadata: {topic: orders, partition: 0}
        spec: {to: [1, 2]}
    """
    assert read_plan(text) == {NAME: (None, (1, 2))}


def spoilt(**changes: object) -> str:
    item = yaml.safe_load(written("yaml"))["items"][0]
    return json.dumps({"apiVersion": "lograft/v1", "kind": "List", "items": [item | changes]})


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "apiVersion: lograft/v1"),
        ("[", "neither JSON nor YAML"),
        ("to: 2026-99-99", "neither JSON nor YAML"),
        ("[" * 5000, "neither JSON nor YAML"),
        ("[]", "apiVersion: lograft/v1"),
        ('{"apiVersion": "lograft/v1", "kind": "List"}', "no `items`"),
        (spoilt(kind="Topic"), r"items\[0\] is not of `kind: Reassignment`"),
        (spoilt(metadata=None), "lacks `metadata`"),
        (spoilt(metadata={"topic": "orders"}), "lacks metadata.topic or metadata.partition"),
        (spoilt(metadata={"topic": "orders", "partition": True}), "lacks metadata.topic or metadata.partition"),
        (spoilt(spec={"to": []}), r"items\[0\]\.spec\.to is not a list of broker ids"),
        (spoilt(spec={"to": [1, "2"]}), "is not a list of broker ids"),
        (spoilt(spec={"to": [1, -2]}), "is not a list of broker ids"),
        (spoilt(spec={"to": [1, 1]}), "has a broker twice: 1,1"),
        (spoilt(spec={"from": 1, "to": [1]}), r"spec\.from is not a list"),
        (spoilt(spec={"to": [1], "replicas": 2}), r"spec\.replicas"),
    ],
)
def test_what_is_no_plan_is_refused_by_the_place(text: str, complaint: str) -> None:
    with pytest.raises(BadPlan, match=complaint):
        read_plan(text)


def test_a_partition_that_is_there_twice_is_refused() -> None:
    document = yaml.safe_load(written("yaml"))
    document["items"] += document["items"][:1]
    with pytest.raises(BadPlan, match=r"items\[2\] repeats partition orders-0"):
        read_plan(json.dumps(document))


def copy_on(broker: int, end: int, size_bytes: int) -> ReplicaDescription:
    return ReplicaDescription(NAME, broker, broker == 1, 1, 0, end, end, size_bytes, UUID(int=broker))


def test_how_far_a_reassignment_is() -> None:
    replicas = {(NAME, 1): copy_on(1, 100, 1000), (NAME, 4): copy_on(4, 30, 250)}
    each = progress_resource(UNDER_WAY, replicas, 1)
    assert each["spec"] == {"from": [1, 2, 3], "to": [1, 2, 4]}
    assert each["status"]["adding"] == [
        {"broker": 4, "inSync": False, "endOffset": 30, "behind": 70, "bytes": 250},
    ]
    out = io.StringIO()
    write_resources(out, [each], PROGRESS_COLUMNS, Settings("b:1", 1), is_one=False)
    assert out.getvalue().splitlines()[1].split() == ["orders-0", "1,2,3", "1,2,4", "0/1", "70", "25%"]


def test_what_nobody_has_said_is_not_made_up() -> None:
    each = progress_resource(UNDER_WAY, {(NAME, 1): copy_on(1, 100, 1000)}, 1)
    assert each["status"]["adding"] == [
        {"broker": 4, "inSync": False, "endOffset": None, "behind": None, "bytes": None},
    ]
    out = io.StringIO()
    write_resources(
        out, [each, progress_resource(UNDER_WAY, {}, None)], PROGRESS_COLUMNS, Settings("b:1", 1), is_one=False
    )
    for line in out.getvalue().splitlines()[1:]:
        assert line.split() == ["orders-0", "1,2,3", "1,2,4", "0/1", "-", "-"]
