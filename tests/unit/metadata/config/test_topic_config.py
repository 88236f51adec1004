"""Which keys and values a topic's configuration takes, and how they are stored."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lograft.metadata.config.cluster_config import BROKER_CONFIG, CLUSTER_CONFIG, cluster_default_of
from lograft.metadata.config.config_key import ConfigKey
from lograft.metadata.config.topic_config import TOPIC_CONFIG, check_topic_config, default_of
from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ControllerError
from lograft.storage.log.log_config import LogConfig

INTERFACE_KEYS = [
    "cleanup.policy", "retention.ms", "retention.bytes", "segment.bytes", "segment.ms", "min.insync.replicas",
    "unclean.leader.election.enable", "max.message.bytes", "compression.type", "message.timestamp.type",
    "min.compaction.lag.ms", "delete.retention.ms", "min.cleanable.dirty.ratio", "index.interval.bytes",
    "flush.messages", "flush.ms", "flush.mode",
    "lograft.validate.batches",
]  # fmt: skip

ALL_KEYS = [*CLUSTER_CONFIG.values(), *BROKER_CONFIG.values()]


def refusal(values: dict[str, str]) -> str:
    with pytest.raises(ControllerError) as refused:
        check_topic_config(values)
    assert refused.value.code == errors_pb2.INVALID_CONFIG
    assert not refused.value.retriable
    return refused.value.message


def test_a_topic_has_the_keys_that_were_promised() -> None:
    assert list(TOPIC_CONFIG) == sorted(INTERFACE_KEYS)


@pytest.mark.parametrize("key", ALL_KEYS, ids=lambda key: key.name)
def test_every_default_is_acceptable_and_in_its_normal_spelling(key: ConfigKey) -> None:
    if key.name == "min.insync.replicas":
        assert key.default is None
    else:
        assert key.default is not None
        assert key.kind.normalise(key.default) == key.default


@pytest.mark.parametrize("key", ALL_KEYS, ids=lambda key: key.name)
def test_every_key_can_be_explained(key: ConfigKey) -> None:
    assert re.fullmatch(r"[A-Z].+[.?]", key.description)
    assert key.kind.accepts
    assert key.kind.name


def test_the_defaults_are_those_that_storage_acts_on() -> None:
    config = LogConfig()
    whole = {
        "segment.bytes": config.segment_bytes,
        "segment.ms": config.segment_ms,
        "index.interval.bytes": config.index_interval_bytes,
        "max.message.bytes": config.max_message_bytes,
        "retention.ms": config.retention_ms,
        "retention.bytes": config.retention_bytes,
        "min.compaction.lag.ms": config.min_compaction_lag_ms,
        "delete.retention.ms": config.delete_retention_ms,
    }
    assert {key: default_of(key) for key in whole} == {key: str(value) for key, value in whole.items()}
    assert float(default_of("min.cleanable.dirty.ratio") or "") == config.min_cleanable_dirty_ratio
    assert default_of("flush.mode") == config.flush_mode.value
    assert (config.cleanup_delete, config.cleanup_compact, default_of("cleanup.policy")) == (True, False, "delete")
    assert (config.append_time, default_of("message.timestamp.type")) == (False, "CreateTime")
    assert (config.compression, default_of("compression.type")) == (None, "producer")
    assert default_of("flush.messages") == default_of("flush.ms") == str(2**63 - 1)  # as good as never
    assert config.flush_messages is None
    assert config.flush_ms is None


def test_the_clusters_own_defaults() -> None:
    expected = {
        "auto.create.topics.enable": "false",
        "default.replication.factor": "3",
        "group.max.size": "2147483647",
        "num.partitions": "1",
        "offsets.retention.minutes": "10080",
        "offsets.topic.num.partitions": "16",
        "offsets.topic.segment.bytes": "16777216",
        "offsets.topic.replication.factor": "3",
        "leader.rebalance.enable": "true",
        "replica.lag.time.max.ms": "10000",
        "leader.replication.throttled.rate": str(2**63 - 1),
        "log.cleaner.io.max.bytes.per.second": "104857600",
    }
    assert {key: cluster_default_of(key) for key in expected} == expected
    assert sorted(CLUSTER_CONFIG) == sorted([*expected, *TOPIC_CONFIG])


@pytest.mark.parametrize(
    ("key", "lowest", "highest"),
    [
        ("default.replication.factor", 1, 32767),
        ("offsets.topic.replication.factor", 1, 32767),
        ("num.partitions", 1, 10_000),
        ("offsets.topic.num.partitions", 1, 10_000),
        ("offsets.retention.minutes", 1, 2**31 - 1),
        ("group.max.size", 1, 2**31 - 1),
        ("replica.lag.time.max.ms", 100, 2**63 - 1),
    ],
)
def test_the_clusters_own_numbers_have_bounds(key: str, lowest: int, highest: int) -> None:
    given = [lowest - 1, lowest, highest, highest + 1]
    stored = [CLUSTER_CONFIG[key].kind.normalise(str(number)) for number in given]
    assert stored == [None, str(lowest), str(highest), None]


def test_the_default_of_the_minimum_isr_depends_on_the_topic() -> None:
    assert default_of("min.insync.replicas") is None


@pytest.mark.parametrize(
    ("key", "value", "stored"),
    [
        ("cleanup.policy", "delete", "delete"),
        ("cleanup.policy", "compact, delete", "compact,delete"),
        ("cleanup.policy", "delete,compact", "compact,delete"),
        ("cleanup.policy", "Delete,delete", "delete"),
        ("compression.type", "LZ4", "lz4"),
        ("compression.type", "none", "uncompressed"),
        ("message.timestamp.type", "logappendtime", "LogAppendTime"),
        ("flush.mode", "os", "os"),
        ("unclean.leader.election.enable", "TRUE", "true"),
        ("unclean.leader.election.enable", " False ", "false"),
        ("retention.ms", "-1", "-1"),
        ("retention.ms", "0", "0"),
        ("retention.ms", " 60000\n", "60000"),
        ("retention.ms", "0060000", "60000"),
        ("retention.ms", "-0", "0"),
        ("retention.ms", str(2**63 - 1), str(2**63 - 1)),
        ("retention.bytes", "-1", "-1"),
        ("segment.bytes", "1024", "1024"),
        ("segment.bytes", str(2**31 - 1), str(2**31 - 1)),
        ("segment.ms", "1", "1"),
        ("min.insync.replicas", "1", "1"),
        ("max.message.bytes", "61", "61"),
        ("max.message.bytes", str(63 * 1024 * 1024), str(63 * 1024 * 1024)),
        ("flush.messages", "1", "1"),
        ("flush.ms", "0", "0"),
        ("delete.retention.ms", "0", "0"),
        ("min.compaction.lag.ms", "0", "0"),
        ("index.interval.bytes", "0", "0"),
        ("min.cleanable.dirty.ratio", "0", "0.0"),
        ("min.cleanable.dirty.ratio", "1", "1.0"),
        ("min.cleanable.dirty.ratio", ".250", "0.25"),
        ("min.cleanable.dirty.ratio", "5E-1", "0.5"),
    ],
)
def test_an_acceptable_value_is_stored_in_one_spelling(key: str, value: str, stored: str) -> None:
    assert check_topic_config({key: value}) == {key: stored}


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("cleanup.policy", ["", "none", "compact delete", "compact,", ",", "compact;delete", "compact,keep"]),
        ("compression.type", ["", "zip", "lz4,zstd", "lz 4"]),
        ("message.timestamp.type", ["", "create", "0"]),
        ("flush.mode", ["", "FSYNC,os", "true"]),
        ("unclean.leader.election.enable", ["", "yes", "1", "on", "t", "true false"]),
        (
            "retention.ms",
            ["", "-2", "7d", "1.0", "1e3", "1_000", "+5", "0x10", "5 000", "- 1", "--1", "null", "٣", "²"],
        ),
        ("retention.ms", [str(2**63), "9" * 5000, "-" + "9" * 19, "inf", "nan", "5\x00"]),
        ("retention.bytes", ["-2", str(2**63)]),
        ("segment.bytes", ["-1", "0", "1023", str(2**31)]),
        ("segment.ms", ["-1", "0"]),
        ("min.insync.replicas", ["-1", "0", str(2**31), "2.0"]),
        ("max.message.bytes", ["-1", "0", "60", str(63 * 1024 * 1024 + 1)]),
        ("min.compaction.lag.ms", ["-1"]),
        ("delete.retention.ms", ["-1"]),
        ("flush.messages", ["-1", "0"]),
        ("flush.ms", ["-1"]),
        ("index.interval.bytes", ["-1", str(2**31)]),
        (
            "min.cleanable.dirty.ratio",
            ["", "-0.1", "1.01", "nan", "inf", "50%", "1,0", "0x1", "1_0", ".", "e", "1e999"],
        ),
    ],
)
def test_another_value_is_refused_with_its_key_and_what_is_accepted(key: str, values: list[str]) -> None:
    for value in values:
        message = refusal({key: value})
        assert key in message
        assert repr(value)[1:10] in message or not value.isascii()
        assert f"expected {TOPIC_CONFIG[key].kind.accepts}" in message


@pytest.mark.parametrize(
    ("key", "suggested"),
    [
        ("retention.msec", "retention.ms"),
        ("Retention.Ms", "retention.ms"),
        (" retention.ms", "retention.ms"),
        ("min.in.sync.replicas", "min.insync.replicas"),
        ("unclean.leader.election.enabled", "unclean.leader.election.enable"),
        ("cleanup_policy", "cleanup.policy"),
    ],
)
def test_a_key_written_wrongly_is_refused_with_the_nearest(key: str, suggested: str) -> None:
    message = refusal({key: "1"})
    assert repr(key) in message
    assert f"did you mean {suggested}?" in message


@pytest.mark.parametrize("key", ["", "xyzzy", "\x00", "k" * 1_000_000])
def test_a_key_like_no_other_is_refused_with_all_that_there_are(key: str) -> None:
    message = refusal({key: "1"})
    assert all(known in message for known in TOPIC_CONFIG)
    assert len(message) < 1000


@pytest.mark.parametrize("key", ["num.partitions", "log.level", "auto.create.topics.enable"])
def test_a_key_of_the_cluster_or_a_broker_is_not_one_of_a_topic(key: str) -> None:
    assert f"a topic has no key '{key}'" in refusal({key: "1"})


def test_every_problem_is_named_at_once() -> None:
    message = refusal({"retention.ms": "x", "segment.ms": "y", "flush.mode": "os", "flush.mod": "os"})
    assert "retention.ms cannot be 'x'" in message
    assert "segment.ms cannot be 'y'" in message
    assert "'flush.mod'" in message
    assert "flush.mode cannot" not in message


def test_the_problems_that_a_message_names_are_bounded() -> None:
    assert "more" not in refusal({f"retention.ms{number}": "1" for number in range(5)})
    assert refusal({f"retention.ms{number}": "1" for number in range(6)}).endswith("and 1 more")
    message = refusal({f"retention.ms{number}": "1" * 10_000 for number in range(1000)})
    assert message.endswith("and 995 more")
    assert len(message) < 1000
    assert len(refusal({"retention.ms": "9" * 1_000_000})) < 300


def test_nothing_is_a_configuration_too() -> None:
    assert check_topic_config({}) == {}


def test_values_come_back_in_the_order_of_their_keys() -> None:
    assert list(check_topic_config({"segment.ms": "5", "flush.mode": "os", "retention.ms": "5"})) == [
        "flush.mode", "retention.ms", "segment.ms",
    ]  # fmt: skip


PLAUSIBLE = st.one_of(
    st.integers(-(2**70), 2**70).map(str),
    st.floats().map(repr),
    st.floats(0, 1).map(repr),
    st.sampled_from(["compact", "DELETE", "delete , compact", "true", "lz4", "CREATETIME", "os", "info"]),
    st.text(),
)


@given(st.sampled_from(ALL_KEYS), PLAUSIBLE)
@example(TOPIC_CONFIG["min.cleanable.dirty.ratio"], "5e-324")
def test_what_is_stored_is_acceptable_and_stays_as_it_is(key: ConfigKey, text: str) -> None:
    stored = key.kind.normalise(text)
    assert stored is None or key.kind.normalise(stored) == stored
