"""A local cluster on paper: ports as promised, and a configuration that a node takes."""

import re
import tomllib

import pytest

from lograft.broker.node.config import NodeConfig, SettingSources, read_config
from lograft.clients.local.layout import MAX_NODES, Layout, UnknownLayout, layout_from_json, new_layout, to_toml

LAYOUT = new_layout("dev-1", 3, 9092)


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
    layout = new_layout("dev-1", MAX_NODES, 1)
    addresses = [address for number in layout.numbers for address in layout.addresses(number).values()]
    assert len(set(addresses)) == len(addresses) == 3 * MAX_NODES + 3


def config_of(layout: Layout, number: int, directory: str = "/data") -> NodeConfig:
    """As the node reads it."""
    text = to_toml(layout.node_config(number, directory, "/tmp/cluster.secret"))
    return read_config(SettingSources(file=tomllib.loads(text)))


@pytest.mark.parametrize(("nodes", "factor"), [(1, "1"), (2, "2"), (3, "3"), (5, "3")])
def test_a_node_takes_its_configuration(nodes: int, factor: str) -> None:
    layout = new_layout("dev-1", nodes, 9092)
    directory = '/tmp/a "quoted" \\ ünusual\x7f dir'
    config = config_of(layout, nodes, directory)
    assert config.node_id == nodes
    assert config.cluster_secret_file == "/tmp/cluster.secret"
    assert config.data_dirs == (directory,)
    assert config.is_broker
    assert config.advertised == config.listen == layout.client_address(nodes)
    assert config.nodes_listen == config.nodes_advertised == layout.nodes_address(nodes)
    assert config.http == layout.http_address(nodes)
    assert config.cluster_settings == {"offsets.topic.replication.factor": factor}


def test_the_first_three_nodes_are_controllers_too() -> None:
    layout = new_layout("dev-1", 5, 9092)
    configs = {number: config_of(layout, number) for number in layout.numbers}
    assert [number for number, config in configs.items() if config.is_controller] == [1, 2, 3]
    assert all(config.is_broker for config in configs.values())
    expected = {number: layout.controller_address(number) for number in (1, 2, 3)}
    assert all(config.controllers == expected for config in configs.values())
    assert [config.controller_listen for config in configs.values()] == [*expected.values(), None, None]
    assert layout.roles(3) == ("controller", "broker")
    assert layout.roles(4) == ("broker",)
    assert "controllers" not in layout.addresses(4)


@pytest.mark.parametrize("nodes", [1, 3])
def test_a_cluster_that_grows_keeps_its_controllers_and_its_settings(nodes: int) -> None:
    layout = new_layout("dev-1", nodes, 9092)
    grown = layout.grown(5)
    assert [config_of(grown, number) for number in layout.numbers] == [
        config_of(layout, number) for number in layout.numbers
    ]
    assert config_of(grown, 5).controllers == config_of(layout, 1).controllers
    assert layout_from_json(grown.to_json()) == grown


def test_all_nodes_of_a_cluster_that_0_1_0_made_stay_controllers() -> None:
    """Its quorum has all of them as voters, and a majority must go on voting."""
    old = '{"format": "lograft-dev-1", "cluster_id": "dev-1", "nodes": 5, "port": 9092}'
    layout = layout_from_json(old)
    assert all(config_of(layout, number).is_controller for number in range(1, 6))
    assert len(config_of(layout, 1).controllers) == 5
    grown = layout_from_json(layout.grown(6).to_json())
    assert config_of(grown, 5).is_controller
    assert not config_of(grown, 6).is_controller
    assert config_of(grown, 1) == config_of(layout, 1)


def test_a_layout_survives_the_disk() -> None:
    assert layout_from_json(LAYOUT.to_json()) == LAYOUT


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "lograft-dev-1"}', "5", '{"format": 1, "nodes": 3}'])
def test_what_is_no_layout_is_refused(text: str) -> None:
    with pytest.raises(UnknownLayout):
        layout_from_json(text)
    with pytest.raises(UnknownLayout, match="99 nodes, 3 of them controllers"):
        layout_from_json(LAYOUT.to_json().replace('"nodes": 3', '"nodes": 99'))
    with pytest.raises(UnknownLayout):
        layout_from_json(LAYOUT.to_json().replace("9092", '"x"'))


def test_a_layout_of_a_later_version_is_refused() -> None:
    with pytest.raises(UnknownLayout, match=re.escape("of format 'lograft-dev-2'")):
        layout_from_json(LAYOUT.to_json().replace("lograft-dev-1", "lograft-dev-2"))
