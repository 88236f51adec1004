"""A node's configuration: what is taken, from where, and how what is not is refused."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from lograft.broker.node.config import (
    KEYS,
    ConfigRefused,
    NodeConfig,
    SettingSources,
    parse_file,
    read_config,
    stray_variables,
)
from lograft.broker.node.config_values import Role

# INTERFACE.md's example, without what is for later.
EXAMPLE = """
node_id = 1
roles = ["controller", "broker"]        # either or both
cluster_id = "..."                      # all nodes of a cluster agree
cluster_secret_file = "cluster.secret"  # proves that a peer is a node (until certificates do)
data_dirs = ["/var/lib/lograft"]
listen = "0.0.0.0:9092"                 # clients
advertised = "host1:9092"
controllers = ["1@host1:9093", "2@host2:9093", "3@host3:9093"]
controller_listen = "0.0.0.0:9093"
nodes_listen = "0.0.0.0:9094"           # broker to broker; never for clients; default: listen's host, port + 2
rack = "a"
http = "0.0.0.0:9644"                   # /metrics, /healthz, /readyz
max_connections = 2000
max_connections_per_address = 500
network_buffer_bytes = 268435456
max_request_bytes = 16777216
[log]                                   # topic defaults, Kafka's names
"retention.ms" = 604800000
"""

FILE: Mapping[str, Any] = parse_file("node.toml", EXAMPLE)
CONFIG = NodeConfig(
    node_id=1,
    roles=(Role.CONTROLLER, Role.BROKER),
    cluster_id="...",
    data_dirs=("/var/lib/lograft",),
    controllers={1: "host1:9093", 2: "host2:9093", 3: "host3:9093"},
    listen="0.0.0.0:9092",
    advertised="host1:9092",
    controller_listen="0.0.0.0:9093",
    nodes_listen="0.0.0.0:9094",
    nodes_advertised="host1:9094",
    cluster_secret_file="cluster.secret",
    rack="a",
    http="0.0.0.0:9644",
    max_connections=2000,
    max_connections_per_address=500,
    network_buffer_bytes=256 * 1024 * 1024,
    max_request_bytes=16 * 1024 * 1024,
    cluster_settings={"retention.ms": "604800000"},
)


def read(
    changes: Mapping[str, Any] | None = None,
    *,
    variables: Mapping[str, str] | None = None,
    flags: Mapping[str, str] | None = None,
    table_flags: Mapping[str, tuple[str, ...]] | None = None,
) -> NodeConfig:
    """The example with `changes`, None to leave a key out."""
    file = {key: value for key, value in {**FILE, **(changes or {})}.items() if value is not None}
    return read_config(SettingSources(file, variables or {}, flags or {}, table_flags or {}))


def test_the_example_is_read() -> None:
    assert read() == CONFIG


def test_variables_win_over_the_file_and_flags_over_variables() -> None:
    variables = {"LOGRAFT_NODE_ID": "2", "LOGRAFT_RACK": "b", "LOGRAFT_HTTP": "", "PATH": "/bin"}
    assert read(variables=variables) == replace(CONFIG, node_id=2, rack="b")
    assert read(variables=variables, flags={"node_id": "3"}) == replace(CONFIG, node_id=3, rack="b")


def test_every_key_can_be_given_as_text() -> None:
    texts = {
        "node_id": "1",
        "roles": "broker, controller",
        "cluster_id": "...",
        "data_dirs": "/var/lib/lograft/",
        "disk.reserve.bytes": "5000",
        "listen": "0.0.0.0:9092",
        "advertised": "host1:9092",
        "controllers": "3@host3:9093, 1@host1:9093,2@host2:9093",
        "controller_listen": "0.0.0.0:9093",
        "cluster_secret_file": "cluster.secret",
        "nodes_listen": "0.0.0.0:9094",
        "nodes_advertised": "host1:9094",
        "rack": "a",
        "http": "0.0.0.0:9644",
        "max_connections": "2000",
        "max_connections_per_address": "500",
        "network_buffer_bytes": "268435456",
        "max_request_bytes": "16777216",
        "metrics_topics": "100",
        "log_level": "INFO",
    }
    assert texts.keys() == KEYS.keys()
    settings = {"log": ("retention.ms=604800000",)}
    wanted = replace(CONFIG, disk_reserve_bytes=5000)
    assert read_config(SettingSources(flags=texts, table_flags=settings)) == wanted
    variables = {f"LOGRAFT_{key.upper().replace('.', '_')}": text for key, text in texts.items()}
    assert read_config(SettingSources(variables={**variables, "LOGRAFT_LOG_RETENTION_MS": "604800000"})) == wanted


def test_a_key_with_dots_is_read_with_quotes_and_without() -> None:
    for text in ('"disk.reserve.bytes" = 5000', "disk.reserve.bytes = 5000", "[disk]\nreserve.bytes = 5000"):
        assert read(parse_file("node.toml", text)) == replace(CONFIG, disk_reserve_bytes=5000)
    for changes, named in (({"disk": {"reserve": {"bites": 1}}}, "disk.reserve.bites"), ({"disk": 7}, "disk")):
        with pytest.raises(ConfigRefused, match=named):
            read(changes)
    with pytest.raises(ConfigRefused, match=r"disk\.reserve\.bytes cannot be '-1': expected a whole number"):
        read({"disk.reserve.bytes": "-1"})


def test_what_is_left_out_follows_from_the_rest() -> None:
    least = {"node_id": 1, "cluster_id": "c", "data_dirs": ["/d"], "controllers": ["1@h:9093"], "advertised": "h:9092",
             "cluster_secret_file": "/s"}  # fmt: skip
    config = read_config(SettingSources(file=least))
    assert config.roles == (Role.CONTROLLER, Role.BROKER)
    assert (config.listen, config.controller_listen, config.http) == ("0.0.0.0:9092", "h:9093", None)
    assert (config.nodes_listen, config.nodes_advertised) == ("0.0.0.0:9094", "h:9094")
    assert (config.log_level, config.cluster_settings) == ("info", {})
    assert read({"listen": "host1:1", "advertised": None}).advertised == "host1:1"


def test_a_node_that_no_controller_list_names_is_a_broker() -> None:
    """So a StatefulSet can grow beyond its controllers: all its nodes have the same list."""
    assert read({"roles": None, "node_id": 4}).roles == (Role.BROKER,)
    assert read({"roles": None, "node_id": 1}).roles == (Role.CONTROLLER, Role.BROKER)


def test_brokers_are_served_beside_clients() -> None:
    aside = {"listen": "10.0.0.1:7000", "advertised": "public.example:80", "nodes_listen": None}
    config = read(aside)
    assert (config.nodes_listen, config.nodes_advertised) == ("10.0.0.1:7002", "10.0.0.1:7002")
    config = read({**aside, "nodes_listen": "0.0.0.0:7100"})
    assert (config.nodes_listen, config.nodes_advertised) == ("0.0.0.0:7100", "public.example:7100")
    config = read(aside, variables={"LOGRAFT_NODES_ADVERTISED": "inside:1"}, flags={"nodes_listen": "[::]:7200"})
    assert (config.nodes_listen, config.nodes_advertised) == ("[::]:7200", "inside:1")


def test_without_a_secret_nobody_else_may_reach_a_node() -> None:
    alone = {
        "node_id": 1, "cluster_id": "c", "data_dirs": ["/d"], "controllers": ["1@[::1]:9093"],
        "listen": "127.0.0.1:9092", "advertised": "somewhere:80",
    }  # fmt: skip
    assert read_config(SettingSources(file=alone)).cluster_secret_file is None
    for key in ("listen", "nodes_listen", "controller_listen"):
        for address in ("0.0.0.0:7000", "host1:7000", "[::]:7000", "10.0.0.1:7000"):
            with pytest.raises(
                ConfigRefused, match="cluster_secret_file is missing, and other hosts can reach this node"
            ):
                read_config(SettingSources(file={**alone, key: address}))
            read_config(SettingSources(file={**alone, key: address, "cluster_secret_file": "/s"}))
    read_config(SettingSources(file={**alone, "listen": "localhost:7000", "nodes_listen": "127.3.2.1:7000"}))


def test_a_role_that_is_not_held_needs_nothing_and_has_nothing() -> None:
    broker = read({"roles": ["broker"], "node_id": 4})
    assert (broker.is_broker, broker.is_controller, broker.controller_listen) == (True, False, None)
    controller = read({"roles": ["controller"], "advertised": None})
    assert (controller.is_broker, controller.listen, controller.advertised) == (False, None, None)
    assert (controller.nodes_listen, controller.nodes_advertised) == (None, None)


REFUSED = [
    ({"node_id": -1}, "node_id cannot be -1: expected a whole number from 0 to 2147483647"),
    ({"node_id": True}, "node_id cannot be True"),
    ({"node_id": "one"}, "node_id cannot be 'one'"),
    ({"node_id": None}, "node_id is missing: expected a whole number"),
    ({"cluster_id": None}, "cluster_id is missing: expected 1 to 64 letters"),
    ({"cluster_id": "a b"}, "cluster_id cannot be 'a b'"),
    ({"roles": []}, "roles cannot be []: expected controller, broker, or both"),
    ({"roles": ["leader"]}, "roles cannot be ['leader']"),
    ({"data_dirs": []}, "data_dirs cannot be []"),
    ({"data_dirs": ["/d", "/d/"]}, "data_dirs cannot be ['/d', '/d/']: expected one or more distinct directories"),
    ({"data_dirs": [""]}, "data_dirs cannot be ['']"),
    ({"listen": "9092"}, "listen cannot be '9092': expected host:port"),
    ({"listen": "h:0"}, "listen cannot be 'h:0'"),
    ({"listen": "h:70000"}, "listen cannot be 'h:70000'"),
    ({"listen": 9092}, "listen cannot be 9092"),
    ({"advertised": None}, "advertised cannot be '0.0.0.0:9092', which is not an address to connect to"),
    ({"advertised": "[::]:9092"}, "advertised cannot be '[::]:9092'"),
    (
        {"controllers": ["host1:9093"]},
        "controllers cannot be ['host1:9093']: expected each controller once, as id@host",
    ),
    ({"controllers": ["1@h:1", "1@i:1"]}, "controllers cannot be ['1@h:1', '1@i:1']"),
    ({"controllers": ["1@h:1", "2@h:1"]}, "controllers cannot be ['1@h:1', '2@h:1']"),
    ({"controllers": ["1@h:0"]}, "controllers cannot be ['1@h:0']"),
    ({"controllers": ["2@host2:9093"]}, "controllers does not name node 1, a controller: add 1@host:port"),
    ({"roles": ["broker"]}, "controllers names node 1, which does not have the role controller"),
    ({"controller_listen": "0.0.0.0:9092"}, "controller_listen cannot be '0.0.0.0:9092', which listen already uses"),
    ({"nodes_listen": "0.0.0.0:9092"}, "nodes_listen cannot be '0.0.0.0:9092', which listen already uses"),
    ({"nodes_listen": "9094"}, "nodes_listen cannot be '9094': expected host:port"),
    (
        {"nodes_advertised": "[::]:9094"},
        "nodes_advertised cannot be '[::]:9094', which is not an address to connect to",
    ),
    (
        {"listen": "0.0.0.0:65534", "nodes_listen": None},
        "nodes_listen is missing, and its default port 65534 + 2 is out of range: set host:port",
    ),
    (
        {"cluster_secret_file": None},
        "other hosts can reach this node (listen is '0.0.0.0:9092', nodes_listen is '0.0.0.0:",
    ),
    ({"cluster_secret_file": ""}, "cluster_secret_file cannot be '': expected the path of a file"),
    ({"rack": ""}, "rack cannot be '': expected a name"),
    ({"http": "x"}, "http cannot be 'x': expected host:port"),
    ({"log_level": "loud"}, "log_level cannot be 'loud': expected one of debug, info, warning, error"),
    ({"listne": "h:1"}, "unknown key 'listne': did you mean listen? the keys are node_id, roles,"),
    ({"zebra": 1}, "unknown key 'zebra': the keys are node_id, roles,"),
    ({"log": 5}, "log cannot be 5: expected a table, [log]"),
    ({"log": {"retention.mss": 5}}, "[log] has no key 'retention.mss': did you mean retention.ms?"),
    ({"log": {"retention": {"ms": -5}}}, "retention.ms cannot be '-5': expected a whole number from -1 to"),
    ({"log": {"num.partitions": 5}}, "[log] has no key 'num.partitions'"),
    ({"cluster": {"num.partitions": 0}}, "num.partitions cannot be '0': expected a whole number from 1"),
    ({"cluster": {"retention.ms": 5}}, "[cluster] has no key 'retention.ms'"),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED)
def test_what_is_not_acceptable_is_refused_by_name(changes: Mapping[str, Any], message: str) -> None:
    with pytest.raises(ConfigRefused, match=re.escape(message)):
        read(changes)


def test_everything_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(ConfigRefused, match=r"^unknown key 'x'.*; node_id cannot be.*; \[log\] has no key"):
        read({"x": 1, "node_id": "?", "log": {"y": 1}})


def test_a_refusal_says_where_the_value_is_from() -> None:
    with pytest.raises(ConfigRefused, match=r"listen \(LOGRAFT_LISTEN\) cannot be 'x'"):
        read(variables={"LOGRAFT_LISTEN": "x"})
    with pytest.raises(ConfigRefused, match=r"data_dirs \(--data-dirs\) cannot be ''"):
        read(flags={"data_dirs": ""})
    with pytest.raises(ConfigRefused, match=r"--log cannot be 'retention.ms': expected key=value"):
        read(table_flags={"log": ("retention.ms",)})


def test_a_file_that_is_not_toml_is_refused_with_the_place() -> None:
    with pytest.raises(ConfigRefused, match=r"node.toml is not valid TOML: .*line 2"):
        parse_file("node.toml", "node_id = 1\nroles = broker\n")


def test_settings_are_merged_from_all_sources_and_normalised() -> None:
    config = read(
        {"log": {"flush.mode": "OS", "cleanup.policy": ["delete", "compact"], "segment": {"ms": 5, "bytes": 4096}}},
        variables={"LOGRAFT_LOG_SEGMENT_MS": "6", "LOGRAFT_CLUSTER_NUM_PARTITIONS": "8"},
        table_flags={"log": ("segment.bytes=8192",)},
    )
    assert config.cluster_settings == {
        "flush.mode": "os",
        "cleanup.policy": "compact,delete",
        "segment.ms": "6",
        "segment.bytes": "8192",
        "num.partitions": "8",
    }


def test_a_flag_in_the_file_is_a_flag() -> None:
    settings = read({"log": {"unclean.leader.election.enable": True}}).cluster_settings
    assert settings == {"unclean.leader.election.enable": "true"}


def test_misspelt_variables_are_noticed_and_strangers_are_not() -> None:
    strangers = {"LOGRAFT_BOOTSTRAP": "h:1", "LOGRAFT_PORT": "tcp://10.0.0.1:9092", "LOGRAFT_SERVICE_HOST": "10.0.0.1"}
    misspelt = {"LOGRAFT_DATA_DIR": "/d", "LOGRAFT_LOG_RETENTION": "5"}
    known = {"LOGRAFT_DATA_DIRS": "/d", "LOGRAFT_LOG_RETENTION_MS": "5"}
    found = list(stray_variables({**strangers, **misspelt, **known, "PATH": ""}))
    assert found == [("LOGRAFT_DATA_DIR", "LOGRAFT_DATA_DIRS"), ("LOGRAFT_LOG_RETENTION", "LOGRAFT_LOG_RETENTION_MS")]
