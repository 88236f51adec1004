"""Resource files: what they mean, and how everything that is wrong with them is told, with where it is."""

from uuid import UUID

import pytest

from lograft.cli.declarative.desired_state import Desired, DesiredSetting, DesiredTopic, Place
from lograft.cli.declarative.manifest_parser import BadManifest, read_manifests
from lograft.cli.resources.config_resources import Owner
from lograft.clients.admin.model.types import ConfigKind

ORDERS = """\
apiVersion: lograft/v1
kind: Topic
metadata: {name: orders}
spec:
  partitions: 6
  replicas: 3
  config: {retention.ms: 604800000, cleanup.policy: delete}
"""


def read(*texts: str) -> list[Desired]:
    return read_manifests([(f"{number}.yaml", text) for number, text in enumerate(texts, start=1)])


def topic(text: str) -> DesiredTopic:
    (only,) = read(text)
    assert isinstance(only, DesiredTopic)
    return only


def problems(*texts: str) -> list[str]:
    with pytest.raises(BadManifest) as bad:
        read(*texts)
    return list(bad.value.problems)


def with_spec(text: str) -> str:
    return f"apiVersion: lograft/v1\nkind: Topic\nmetadata: {{name: a}}\nspec: {text}\n"


def test_a_topic_is_read() -> None:
    config = {"retention.ms": "604800000", "cleanup.policy": "delete"}
    place = Place("1.yaml", 1, 1)
    assert read(ORDERS) == [DesiredTopic("orders", place, partitions=6, replicas=3, config=config)]


def test_what_is_not_said_is_not_known() -> None:
    named = topic("apiVersion: lograft/v1\nkind: Topic\nmetadata: {name: a}\n")
    assert (named.partitions, named.replicas, named.config, named.id) == (None, None, None, None)
    assert topic(with_spec("{config: {}}")).config == {}


def test_what_a_cluster_tells_of_a_topic_is_passed_over() -> None:
    name = "a7d0ae2b-a206-45d3-a917-dd12894b00aa"
    text = f"""\
apiVersion: lograft/v1
kind: Topic
metadata: {{name: orders, id: {name}, internal: false}}
spec: {{partitions: 1}}
status: {{whatever: [there, is]}}
"""
    assert topic(text).id == UUID(name)


@pytest.mark.parametrize(
    ("written", "taken"),
    [
        ("010", "010"),
        ("1_000", "1_000"),
        ("12:30", "12:30"),
        ("yes", "yes"),
        ("true", "true"),
        ("0.50", "0.50"),
        ("'7'", "7"),
        ("[compact, delete]", "compact,delete"),
        ("2026-01-01", "2026-01-01"),
    ],
)
def test_values_are_taken_as_they_are_written(written: str, taken: str) -> None:
    assert topic(with_spec(f"{{config: {{key: {written}}}}}")).config == {"key": taken}


def test_documents_lists_and_comments() -> None:
    listed = "apiVersion: lograft/v1\nkind: List\nitems:\n" + "".join(
        f"- {{apiVersion: lograft/v1, kind: Topic, metadata: {{name: {name}}}}}\n" for name in ("b", "c")
    )
    found = read(f"# only this\n---\n{ORDERS}---\n---\n{listed}", "", "apiVersion: lograft/v1\nkind: List\nitems: []\n")
    assert [(each.label, each.place.document, each.place.line) for each in found] == [
        ("topic/orders", 1, 3), ("topic/b", 3, 15), ("topic/c", 3, 16),
    ]  # fmt: skip


def test_json_is_read_even_with_tabs() -> None:
    text = '{\n\t"apiVersion": "lograft/v1",\n\t"kind": "Topic",\n\t"metadata": {"name": "a"},\n\t"spec": {"x": 1}\n}'
    assert problems(text) == [
        "1.yaml, document 1, line 5: unknown field spec.x: known fields are partitions, replicas, config"
    ]
    assert topic(text.replace('"x"', '"partitions"')).partitions == 1


def test_what_is_merged_in_is_overridden_by_what_is_there() -> None:
    text = """\
apiVersion: lograft/v1
kind: List
items:
- apiVersion: lograft/v1
  kind: Topic
  metadata: {name: a}
  spec: {config: &usual {retention.ms: 1, segment.ms: 2}}
- apiVersion: lograft/v1
  kind: Topic
  metadata: {name: b}
  spec: {config: {<<: *usual, retention.ms: 5}}
"""
    assert [each.config for each in read(text) if isinstance(each, DesiredTopic)] == [
        {"retention.ms": "1", "segment.ms": "2"}, {"retention.ms": "5", "segment.ms": "2"},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value", "owner", "key", "wanted"),
    [
        ("cluster/num.partitions", "6", Owner(ConfigKind.CLUSTER, ""), "num.partitions", "6"),
        ("broker/1/log.level", "debug", Owner(ConfigKind.BROKER, "1"), "log.level", "debug"),
        ("topic/a/retention.ms", "null", Owner(ConfigKind.TOPIC, "a"), "retention.ms", None),
    ],
)
def test_single_settings(name: str, value: str, owner: Owner, key: str, wanted: str | None) -> None:
    text = f"""\
apiVersion: lograft/v1
kind: Config
metadata: {{name: {name}, owner: x, key: y}}
spec: {{value: {value}}}
status: {{value: 5, source: default}}
"""
    assert read(text) == [DesiredSetting(owner, key, wanted, Place("1.yaml", 1, 1))]


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("a: [1\nb: 2\n", 2, "not valid YAML: "),
        ("a: 1\n\tb: 2\n", 2, "not valid YAML: "),
        ("a: *nobody\n", 1, "not valid YAML: "),
        ("a: \x07\n", 1, r"character '\x07' is not allowed in text"),
        ("just words\n", 1, "a resource must be a mapping"),
        ("- a\n", 1, "a resource must be a mapping"),
        ("{}\n", 1, "apiVersion is missing: it must be lograft/v1"),
        ("apiVersion: v1\nkind: Topic\n", 1, "apiVersion is 'v1': it must be lograft/v1"),
        ("apiVersion: lograft/v1\n", 1, "kind is missing: use Topic, Config or List"),
        ("apiVersion: lograft/v1\nkind: topic\n", 2, "kind 'topic' is unknown: did you mean Topic?"),
        ("apiVersion: lograft/v1\nkind: Pod\n", 2, "kind 'Pod' is unknown: use Topic, Config or List"),
        ("apiVersion: lograft/v1\nkind: Broker\n", 1, "metadata.name is missing: name the broker"),
        (
            "apiVersion: lograft/v1\nkind: Broker\nmetadata: {name: 1}\nspec: {rack: 2026-99-99}\n",
            4,
            "spec is invalid: ",
        ),
        (
            "apiVersion: lograft/v1\nkind: GroupOffsets\nmetadata: {name: g}\n",
            2,
            "import offsets with `lograft import group -f FILE`",
        ),
        ("apiVersion: lograft/v1\nkind: List\n", 1, "items is missing or not a list"),
        ("apiVersion: lograft/v1\nkind: List\nitem: []\n", 3, "unknown field item: did you mean items?"),
        (
            "apiVersion: lograft/v1\nkind: List\nitems:\n- {apiVersion: lograft/v1, kind: List}\n",
            4,
            "a List cannot contain",
        ),
        ("apiVersion: lograft/v1\nkind: Topic\nspec: {}\n", 1, "metadata.name is missing: name the topic"),
        ("apiVersion: lograft/v1\nkind: Topic\nkind: Topic\nmetadata: {name: a}\n", 3, "kind is set twice"),
        (
            "apiVersion: lograft/v1\nkind: Topic\nmetadata: {name: a}\nspecs: {}\n",
            4,
            "unknown field specs: did you mean",
        ),
        (
            "apiVersion: lograft/v1\nkind: Topic\nmetadata: {nam: a}\n",
            3,
            "unknown field metadata.nam: did you mean name?",
        ),
        ("apiVersion: lograft/v1\nkind: Topic\nmetadata: {name: a, id: 5}\n", 3, "metadata.id is not a topic id"),
        (with_spec("{partition: 3}"), 4, "unknown field spec.partition: did you mean partitions?"),
        (with_spec("5"), 4, "spec is empty or not a mapping"),
        (with_spec("\n  partitions: many"), 5, "spec.partitions is 'many': use an integer from 1 to 2147483647"),
        (with_spec("\n  partitions: 0"), 5, "spec.partitions is '0'"),
        (with_spec("\n  partitions: -1"), 5, "spec.partitions is '-1'"),
        (with_spec("\n  partitions: 010"), 5, "spec.partitions is '010'"),
        (with_spec("\n  partitions: 3.0"), 5, "spec.partitions is '3.0'"),
        (with_spec("\n  partitions: '3'"), 5, "spec.partitions is '3'"),
        (with_spec("\n  replicas: 2147483648"), 5, "spec.replicas is '2147483648'"),
        (with_spec("\n  replicas: [3]"), 5, "spec.replicas is not a number"),
        (with_spec("\n  config:"), 5, "spec.config is empty: use {} to unset all keys"),
        (with_spec("\n  config: 5"), 5, "spec.config is empty or not a mapping"),
        (with_spec("\n  config:\n    retention.ms:"), 6, "spec.config.retention.ms has no value"),
        (with_spec("\n  config: {a: {b: c}}"), 5, "spec.config.a has no value"),
        (with_spec("\n  config: {a: 1, a: 2}"), 5, "spec.config.a is set twice"),
        (
            "apiVersion: lograft/v1\nkind: Config\nmetadata: {name: cluster}\nspec: {value: 1}\n",
            3,
            "is not a configuration key",
        ),
        ("apiVersion: lograft/v1\nkind: Config\nmetadata: {name: cluster/a}\nspec: {}\n", 1, "spec.value is missing"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(text: str, line: int, what: str) -> None:
    first = problems(text)[0]
    assert first.startswith(f"1.yaml, document 1, line {line}: ")
    assert what in first


def test_all_that_is_wrong_is_told_at_once() -> None:
    found = problems(ORDERS + "---\n" + with_spec("{partition: 3, replica: 1}"), "x: [")
    assert [problem.partition(": ")[0] for problem in found] == [
        "1.yaml, document 2, line 12", "1.yaml, document 2, line 12", "2.yaml, document 1, line 2",
    ]  # fmt: skip


def test_nothing_is_wanted_twice() -> None:
    (problem,) = problems(ORDERS, ORDERS)
    assert problem == (
        "2.yaml, document 1, line 1: topic/orders is declared twice, first in 1.yaml, document 1, line 1"
    )
    (problem,) = problems(ORDERS.replace("orders", "a.b"), ORDERS.replace("orders", "a_b"))
    assert "topic/a_b and topic/a.b differ only in '.' and '_'" in problem
    setting = "apiVersion: lograft/v1\nkind: Config\nmetadata: {name: topic/orders/segment.ms}\nspec: {value: 1}\n"
    (problem,) = problems(setting, ORDERS)
    assert (
        "1.yaml, document 1, line 1: config/topic/orders/segment.ms conflicts with the `config` of topic/orders"
        in problem
    )
    assert len(read(setting, "apiVersion: lograft/v1\nkind: Topic\nmetadata: {name: orders}\n")) == 2


@pytest.mark.parametrize("level", ["[", "- ", "{a: ", "? "])
def test_what_is_nested_deeper_than_the_stack_is_refused(level: str) -> None:
    with pytest.raises(BadManifest, match="it is nested too deeply"):
        read_manifests([("deep.yaml", level * 100_000)])
