"""What is done so that a cluster is as files want it, decided by the controller's own rules."""

import asyncio
from collections.abc import Sequence

import pytest
from support.deciding_admin import DecidingAdmin
from support.metadata_images import brokers, image_with, partition, topic_id

from lograft.cli.common.cluster_options import Settings
from lograft.cli.declarative.apply_plan import Change, differences
from lograft.cli.declarative.apply_run import Refused, carry_out, prepare
from lograft.cli.declarative.diff import unified
from lograft.cli.declarative.manifest_parser import read_manifests
from lograft.cli.output.resource_output import Resource, yaml_text
from lograft.cli.resources.queries import brokers as brokers_shown
from lograft.metadata.config.effective_settings import CLUSTER
from lograft.metadata.image.cluster_image import ClusterImage

SETTINGS = Settings("nowhere:1", 1000)


def image(count: int = 3) -> ClusterImage:
    return image_with(
        *brokers(count),
        topics={"orders": [partition(1, 2), partition(2, 3)]},
        topic_configs={"orders": {"retention.ms": "5000", "segment.ms": "7000"}},
        cluster_config={"num.partitions": "4"},
    )


def topic(name: str, spec: str = "{}", metadata: str = "") -> str:
    return f"apiVersion: lograft/v1\nkind: Topic\nmetadata: {{name: {name}{metadata}}}\nspec: {spec}\n"


def setting(name: str, value: str) -> str:
    return f"apiVersion: lograft/v1\nkind: Config\nmetadata: {{name: {name}}}\nspec: {{value: {value}}}\n"


def planned(admin: DecidingAdmin, *texts: str) -> list[Change]:
    desired = read_manifests([(f"{number}.yaml", text) for number, text in enumerate(texts, start=1)])
    return asyncio.run(prepare(admin, SETTINGS, desired))


def applied(admin: DecidingAdmin, *texts: str) -> list[str]:
    async def carry_all(changes: Sequence[Change]) -> list[str]:
        return [
            f"{change.desired.label} {error or change.verdict}" async for change, error in carry_out(admin, changes)
        ]

    return asyncio.run(carry_all(planned(admin, *texts)))


def refused(admin: DecidingAdmin, *texts: str) -> list[str]:
    with pytest.raises(Refused) as bad:
        planned(admin, *texts)
    assert admin.changes == 0
    assert all(refusal.remedy for refusal in bad.value.refusals)
    return [refusal.cause for refusal in bad.value.refusals]


def config_of(admin: DecidingAdmin, name: str) -> dict[str, str]:
    return dict(asyncio.run(admin.describe_topic(name)).config)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("{}", []),
        ("{partitions: 2, replicas: 2}", []),
        ("{config: {retention.ms: 5000, segment.ms: 7000}}", []),
        ("{config: {retention.ms: ' 05000', segment.ms: 7000}}", []),
        ("{partitions: 3}", ["partitions 2 -> 3"]),
        ("{replicas: 3}", ["replicas 2 -> 3"]),
        ("{replicas: 1}", ["replicas 2 -> 1"]),
        ("{config: {}}", ["retention.ms 5000 -> not set", "segment.ms 7000 -> not set"]),
        ("{config: {segment.ms: 8000, flush.mode: OS}}", [
            "flush.mode not set -> os", "segment.ms 7000 -> 8000", "retention.ms 5000 -> not set",
        ]),
        ("{config: {cleanup.policy: [delete, compact], retention.ms: 5000, segment.ms: 7000}}", [
            "cleanup.policy not set -> compact,delete",
        ]),
    ],
)  # fmt: skip
def test_what_differs_is_what_is_changed(spec: str, expected: list[str]) -> None:
    admin = DecidingAdmin(image())
    (change,) = planned(admin, topic("orders", spec))
    assert differences(change) == expected
    assert admin.changes == 0, "a plan changes nothing"
    assert applied(admin, topic("orders", spec)) == [f"topic/orders {'configured' if expected else 'unchanged'}"]
    assert bool(admin.changes) == bool(expected)
    assert applied(admin, topic("orders", spec)) == ["topic/orders unchanged"]


def test_a_topic_that_there_is_none_of_is_created() -> None:
    admin = DecidingAdmin(image())
    (change,) = planned(admin, topic("bills", "{replicas: 2, config: {retention.ms: 1}}"))
    assert differences(change) == ["partitions 4", "replicas 2", "retention.ms 1"], "as the cluster would make it"
    assert applied(admin, topic("bills"), topic("orders")) == ["topic/bills created", "topic/orders unchanged"]
    assert applied(admin, topic("bills")) == ["topic/bills unchanged"]


def test_replicas_that_are_added_allow_a_higher_minimum_at_once() -> None:
    admin = DecidingAdmin(image())
    spec = "{replicas: 3, partitions: 4, config: {min.insync.replicas: 3}}"
    assert applied(admin, topic("orders", spec)) == ["topic/orders configured"]
    described = asyncio.run(admin.describe_topic("orders"))
    assert (described.replication_factor, dict(described.config)) == (3, {"min.insync.replicas": "3"})
    assert [len(each.replicas) for each in described.partitions] == [3, 3, 3, 3], "new ones have as many"
    assert applied(admin, topic("orders", spec)) == ["topic/orders unchanged"]


def test_fewer_replicas_come_after_the_minimum_that_fits_them() -> None:
    admin = DecidingAdmin(image())
    applied(admin, topic("orders", "{config: {min.insync.replicas: 2}}"))
    assert applied(admin, topic("orders", "{replicas: 1, config: {min.insync.replicas: 1}}")) == [
        "topic/orders configured"
    ]
    assert config_of(admin, "orders") == {"min.insync.replicas": "1"}


def test_a_minimum_that_fewer_replicas_left_behind_may_stay() -> None:
    admin = DecidingAdmin(image())
    applied(admin, topic("orders", "{config: {min.insync.replicas: 2}}"))
    applied(admin, topic("orders", "{replicas: 1}"))
    assert applied(admin, topic("orders", "{replicas: 1, config: {min.insync.replicas: 2}}")) == [
        "topic/orders unchanged"
    ]


def test_single_settings_are_set_and_unset() -> None:
    admin = DecidingAdmin(image())
    texts = [setting("cluster/num.partitions", "06"), setting("topic/orders/retention.ms", "null")]
    assert [differences(change) for change in planned(admin, *texts)] == [["value 4 -> 6"], ["value 5000 -> not set"]]
    expected = ["config/cluster/num.partitions", "config/topic/orders/retention.ms"]
    assert applied(admin, *texts) == [f"{label} configured" for label in expected]
    assert applied(admin, *texts) == [f"{label} unchanged" for label in expected]
    assert admin.image.config_of(CLUSTER) == {"num.partitions": "6"}
    assert config_of(admin, "orders") == {"segment.ms": "7000"}, "others stay"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (topic("orders", "{partitions: 1}"), "topic/orders has 2 partitions, and a reduction"),
        (topic("orders", "{replicas: 4}"), "is to have 4 replicas of each partition, and there are only 3 live"),
        (
            topic("orders", "{replicas: 1, config: {min.insync.replicas: 2}}"),
            "sets min.insync.replicas to 2",
        ),
        (topic("orders", "{}", f", id: {topic_id(9)}"), f"topic/orders was recreated: its id is {topic_id(1)}"),
        (topic("orders", "{config: {retention.mss: 1}}"), "did you mean retention.ms?"),
        (topic("orders", "{config: {flush.mode: never}}"), "flush.mode cannot be 'never': expected one of fsync, os"),
        (topic("bills", "{config: {flush.mode: never}}"), "flush.mode cannot be 'never': expected one of fsync, os"),
        (topic("bills", "{replicas: 4}"), "4 replicas"),
        (topic("a b"), "the topic name 'a b' has ' '"),
        (topic("__mine"), "begins with '__'"),
        (setting("cluster/num.partition", "1"), "did you mean num.partitions?"),
        (setting("topic/bills/retention.ms", "1"), "there is no topic 'bills'"),
        (setting("broker/9/log.level", "debug"), "no broker '9' is registered"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_changed(text: str, cause: str) -> None:
    good = topic("fine")
    assert cause in refused(DecidingAdmin(image()), good, text)[0]


def test_all_that_cannot_be_is_told_with_its_place() -> None:
    causes = refused(
        DecidingAdmin(image()), topic("a b"), topic("orders", "{partitions: 1}"), topic("bills", "{config: {x: 1}}")
    )
    assert len(causes) == 3
    assert sorted(cause.partition(":")[0] for cause in causes) == [
        f"{number}.yaml, document 1, line 1" for number in (1, 2, 3)
    ]


def test_the_id_of_the_topic_that_is_there_is_fine_and_of_one_that_is_gone_too() -> None:
    admin = DecidingAdmin(image())
    texts = [topic("orders", "{}", f", id: {topic_id(1)}"), topic("gone", "{}", f", id: {topic_id(8)}")]
    assert applied(admin, *texts) == ["topic/orders unchanged", "topic/gone created"]


@pytest.mark.parametrize(
    ("spec", "cause"),
    [
        ("{partitions: 3}", "must keep its 2 partitions: it cannot have 3"),
        ("{partitions: 1}", "must keep its 2 partitions: it cannot have 1"),
        ("{replicas: 3}", "a file cannot change its replicas"),
    ],
)
def test_the_clusters_own_topics_keep_their_shape(spec: str, cause: str) -> None:
    own = image_with(*brokers(3), topics={"__own": [partition(1, 2), partition(2, 3)]})
    assert own.topics[topic_id(1)].is_internal
    assert cause in refused(DecidingAdmin(own), topic("__own", spec))[0]
    assert applied(DecidingAdmin(own), topic("__own", "{partitions: 2, replicas: 2}")) == ["topic/__own unchanged"]


def test_one_that_fails_does_not_keep_the_others_from_it() -> None:
    admin = DecidingAdmin(image())
    changes = planned(admin, topic("bills"), topic("orders", "{partitions: 3}"))
    asyncio.run(admin.create_topic("bills"))

    async def carry_all() -> list[str]:
        return [error.code if error else change.verdict async for change, error in carry_out(admin, changes)]

    assert asyncio.run(carry_all()) == ["TOPIC_ALREADY_EXISTS", "configured"]


def test_a_difference_is_shown_as_lines_that_go_and_come() -> None:
    admin = DecidingAdmin(image())
    (changed, new) = planned(admin, topic("orders", "{partitions: 3, config: {retention.ms: 5000}}"), topic("bills"))
    assert list(unified(changed)) == [
        "--- topic/orders (live)",
        "+++ topic/orders (1.yaml)",
        "@@ -3,8 +3,7 @@",
        " metadata:",
        "   name: orders",
        " spec:",
        "-  partitions: 2",
        "+  partitions: 3",
        "   replicas: 2",
        "   config:",
        "     retention.ms: 5000",
        "-    segment.ms: 7000",
    ]
    assert list(unified(new))[:2] == ["--- /dev/null", "+++ topic/bills (2.yaml)"]


# -- what can only be mentioned


def mention(kind: str, name: str, spec: str = "{}") -> str:
    return f"apiVersion: lograft/v1\nkind: {kind}\nmetadata: {{name: {name}}}\nspec: {spec}\n"


def test_what_cannot_be_declared_is_left_as_it_is_if_the_file_says_nothing_new() -> None:
    admin = DecidingAdmin(image())
    (broker,) = [each for each in brokers_of(admin) if each["metadata"]["id"] == 2]
    texts = [
        mention("Partition", "orders-1"),
        topic("orders"),
        yaml_text(broker),
        mention("Broker", "3", "{}"),
    ]
    assert applied(admin, *texts) == [
        "partition/orders-1 unchanged",
        "topic/orders unchanged",
        "broker/2 unchanged",
        "broker/3 unchanged",
    ]
    assert admin.changes == 0


def brokers_of(admin: DecidingAdmin) -> list[Resource]:
    return brokers_shown(asyncio.run(admin.describe_cluster(include_internal=True)), [])


def test_what_cannot_be_declared_is_refused_if_the_file_would_have_it_otherwise() -> None:
    admin = DecidingAdmin(image())
    causes = refused(
        admin,
        mention("Broker", "2", "{rack: moon}"),
        mention("Broker", "9"),
        mention("Partition", "orders-7"),
        mention("Partition", "orders-0", "{leader: 2}"),
        topic("new"),
    )
    assert causes == [
        '1.yaml, document 1, line 1: spec.rack of broker/2 is null, and a file cannot set it to "moon"',
        "2.yaml, document 1, line 1: broker '9' does not exist, and a file cannot create it",
        "3.yaml, document 1, line 1: partition 'orders-7' does not exist, and a file cannot create it",
        "4.yaml, document 1, line 1: spec.leader of partition/orders-0 does not exist, and a file cannot set it to 2",
    ]
