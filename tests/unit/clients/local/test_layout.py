"""A local cluster on paper: ports as promised, and a configuration that a node takes."""

import re
import tomllib

import pytest

from lograft.broker.node.config import SettingSources, read_config
from lograft.clients.local.layout import MAX_NODES, Layout, UnknownLayout, layout_from_json, to_toml

LAYOUT = Layout("dev-1", 3, 9092)


def test_ports_are_where_they_are_promised_to_be() -> None:
    assert LAYOUT.bootstrap == "127.0.0.1:9092,127.0.0.1:9093,127.0.0.1:9094"
    assert LAYOUT.addresses(1) == {
        "clients": "127.0.0.1:9092",
        "controllers": "127.0.0.1:9102",
        "HTTP": "127.0.0.1:9112",
        "other brokers": "127.0.0.1:9132",
    }
    assert LAYOUT.http_address(3) == "127.0.0.1:9114"


def test_no_two_nodes_of_the_largest_cluster_want_the_same_port() -> None:
    layout = Layout("dev-1", MAX_NODES, 1)
    addresses = [address for number in layout.numbers for address in layout.addresses(number).values()]
    assert len(set(addresses)) == len(addresses) == 4 * MAX_NODES


@pytest.mark.parametrize(("nodes", "factor"), [(1, "1"), (2, "2"), (3, "3"), (5, "3")])
def test_a_node_takes_its_configuration(nodes: int, factor: str) -> None:
    layout = Layout("dev-1", nodes, 9092)
    directory = '/tmp/a "quoted" \\ ünusual\x7f dir'
    text = to_toml(layout.node_config(nodes, directory, "/tmp/cluster.secret"))
    config = read_config(SettingSources(file=tomllib.loads(text)))
    assert config.node_id == nodes
    assert config.cluster_secret_file == "/tmp/cluster.secret"
    assert config.data_dirs == (directory,)
    assert config.is_broker
    assert config.is_controller
    assert config.advertised == config.listen == layout.client_address(nodes)
    assert config.controllers == {number: layout.controller_address(number) for number in layout.numbers}
    assert config.controller_listen == layout.controller_address(nodes)
    assert config.nodes_listen == config.nodes_advertised == layout.nodes_address(nodes)
    assert config.http == layout.http_address(nodes)
    assert config.cluster_settings == {"offsets.topic.replication.factor": factor}


def test_a_layout_survives_the_disk() -> None:
    assert layout_from_json(LAYOUT.to_json()) == LAYOUT


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "lograft-dev-1"}', "5", '{"format": 1, "nodes": 3}'])
def test_what_is_no_layout_is_refused(text: str) -> None:
    with pytest.raises(UnknownLayout):
        layout_from_json(text)


def test_a_layout_of_a_later_version_is_refused() -> None:
    with pytest.raises(UnknownLayout, match=re.escape("of format 'lograft-dev-2'")):
        layout_from_json(LAYOUT.to_json().replace("lograft-dev-1", "lograft-dev-2"))
