"""What `deploy/` says is what nodes take: files fit their schemas, and clusters start from them as they stand, but for
where hosts, ports and directories are on this machine."""

import configparser
import contextlib
import functools
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml
from support.free_ports import free_port
from support.server_processes import LOGRAFT, variables

from lograft import Admin
from lograft.broker.node.config import SettingSources, parse_file, read_config
from lograft.broker.node.server_command import EXIT_PANIC, EXIT_REFUSED
from lograft.clients.local.secret import make_secret
from lograft.runtime.process.supervised_process import SupervisedProcess

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "docker" / "compose.yaml").read_text())
RESOURCES = list(yaml.safe_load_all((DEPLOY / "kubernetes" / "lograft.yaml").read_text()))
STATEFUL_SET = next(resource for resource in RESOURCES if resource["kind"] == "StatefulSet")
SECRET_FILES = ("/run/secrets/cluster.secret", "/etc/lograft/secret/cluster.secret")
SHUTDOWN_SECONDS = 30  # how long a node may take to hand over what it leads


def test_compose_file_is_valid() -> None:
    schema = json.loads(files("check_jsonschema").joinpath("builtin_schemas/vendor/compose-spec.json").read_text())
    jsonschema.validate(COMPOSE, schema)


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource["kind"])
def test_kubernetes_resources_are_valid(resource: dict[str, Any]) -> None:
    kubernetes_validate.validate(resource, "1.31", strict=True)


def test_nodes_in_kubernetes_can_find_each_other_before_they_are_ready() -> None:
    """The first start needs all of them."""
    spec = STATEFUL_SET["spec"]
    (headless,) = [one for one in RESOURCES if one["kind"] == "Service" and one["spec"].get("clusterIP") == "None"]
    assert spec["podManagementPolicy"] == "Parallel"
    assert headless["spec"]["publishNotReadyAddresses"] is True
    assert headless["metadata"]["name"] == spec["serviceName"]
    (budget,) = [one for one in RESOURCES if one["kind"] == "PodDisruptionBudget"]
    assert budget["spec"]["maxUnavailable"] == 1
    for selects in (headless["spec"]["selector"], budget["spec"]["selector"]["matchLabels"]):
        assert selects.items() <= spec["template"]["metadata"]["labels"].items()


def test_nodes_are_given_time_to_stop() -> None:
    unit = systemd_unit()["Service"]
    times = [
        int(COMPOSE["services"]["node1"]["stop_grace_period"].removesuffix("s")),
        STATEFUL_SET["spec"]["template"]["spec"]["terminationGracePeriodSeconds"],
        int(unit["TimeoutStopSec"]),
    ]
    assert min(times) > SHUTDOWN_SECONDS


# -- where Kubernetes puts nodes


def test_no_two_nodes_share_a_machine_and_zones_get_as_many_as_can_be() -> None:
    pod = STATEFUL_SET["spec"]["template"]
    affinity = pod["spec"]["affinity"]["podAntiAffinity"]
    (apart,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]
    (spread,) = pod["spec"]["topologySpreadConstraints"]
    assert (apart["topologyKey"], spread["topologyKey"]) == ("kubernetes.io/hostname", "topology.kubernetes.io/zone")
    assert apart["labelSelector"]["matchLabels"] == spread["labelSelector"]["matchLabels"] == pod["metadata"]["labels"]


def test_a_node_asks_for_the_memory_that_the_documents_name() -> None:
    (container,) = STATEFUL_SET["spec"]["template"]["spec"]["containers"]
    (named,) = re.findall(r"Give it (\d+) GiB at least", (DEPLOY.parent / "docs" / "operations.md").read_text())
    assert container["resources"]["requests"]["memory"] == f"{named}Gi"


# -- the secret, which is nowhere in the files


def test_compose_mounts_the_secret_where_nodes_look_for_it() -> None:
    (name,) = COMPOSE["secrets"]
    assert COMPOSE["secrets"][name] == {"file": "./cluster.secret"}
    nodes = [service for one, service in COMPOSE["services"].items() if one.startswith("node")]
    assert [node["secrets"] for node in nodes] == [[name]] * 3
    assert {node["environment"]["LOGRAFT_CLUSTER_SECRET_FILE"] for node in nodes} == {f"/run/secrets/{name}"}
    ignored = (DEPLOY.parent / ".gitignore").read_text().splitlines()
    assert "cluster.secret" in ignored


def test_kubernetes_mounts_the_secret_where_nodes_look_for_it() -> None:
    pod = STATEFUL_SET["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    (volume,) = [volume for volume in pod["volumes"] if "secret" in volume]
    (mount,) = [mount for mount in container["volumeMounts"] if mount["name"] == volume["name"]]
    told = (DEPLOY / "kubernetes" / "lograft.yaml").read_text()
    name, key = re.findall(r"create secret -n lograft generic (\S+) --from-literal=(\S+)=", told)[0]
    assert volume["secret"] == {"secretName": name, "defaultMode": 0o400}
    (variable,) = [one for one in container["env"] if one["name"] == "LOGRAFT_CLUSTER_SECRET_FILE"]
    assert variable["value"] == f"{mount['mountPath']}/{key}"
    assert not [resource for resource in RESOURCES if resource["kind"] == "Secret"]


def test_systemd_hands_the_secret_to_the_node() -> None:
    service = systemd_unit()["Service"]
    name, _, path = service["LoadCredential"].partition(":")
    assert path == "/etc/lograft/cluster.secret"
    assert service["Environment"] == f"LOGRAFT_CLUSTER_SECRET_FILE=%d/{name}"


# -- environments


def environment_of_image() -> dict[str, str]:
    text = (DEPLOY / "docker" / "Dockerfile").read_text().replace("\\\n", " ")
    (line,) = re.findall(r"^ENV (.*)$", text, re.MULTILINE)
    return dict(assignment.split("=", 1) for assignment in line.split())


def compose_environments() -> dict[str, dict[str, str]]:
    """By host."""
    services = {name: service for name, service in COMPOSE["services"].items() if name.startswith("node")}
    return {service["hostname"]: environment_of_image() | service["environment"] for service in services.values()}


def kubernetes_environments(replicas: int) -> dict[str, dict[str, str]]:
    name, spec = STATEFUL_SET["metadata"]["name"], STATEFUL_SET["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    found = {}
    for index in range(replicas):
        fields = {
            "metadata.name": f"{name}-{index}",
            "metadata.namespace": "space",
            "metadata.labels['apps.kubernetes.io/pod-index']": str(index),
            "metadata.labels['topology.kubernetes.io/zone']": ["zone-a", "zone-b", ""][index % 3],
        }
        environment = environment_of_image()
        for variable in container["env"]:
            text = variable.get("value") or fields[variable["valueFrom"]["fieldRef"]["fieldPath"]]
            # As Kubernetes does: of the variables before this one.
            environment[variable["name"]] = re.sub(r"\$\((\w+)\)", lambda known: environment[known[1]], text)  # noqa: B023
        found[f"{name}-{index}.{spec['serviceName']}.space.svc"] = environment
    return found


class Machine:
    """Stands for the hosts: each `host:port` is a port of this machine."""

    def __init__(self, directory: Path, environments: dict[str, dict[str, str]]) -> None:
        self._directory = directory
        self._environments = environments
        ports = sorted({int(port) for environment in environments.values() for port in _ports(environment)})
        first = free_port(len(environments) * len(ports))
        self._places = {
            (host, port): f"127.0.0.1:{first + number * len(ports) + ports.index(port)}"
            for number, host in enumerate(environments)
            for port in ports
        }

    def here(self, host: str, text: str) -> str:
        """What a node on that host is told, as it has to be told here."""
        text = re.sub(r"([\w.-]+):(\d+)", lambda found: self._place(host, found[1], int(found[2])), text)
        if text in SECRET_FILES:
            return str(make_secret(self._directory))
        return text.replace("/var/lib/lograft", str(self._directory / host))

    def _place(self, own: str, host: str, port: int) -> str:
        return self._places[own if host in ("0.0.0.0", "127.0.0.1") else host, port]

    @contextlib.contextmanager
    def running(self, command: list[str]) -> Iterator[dict[str, SupervisedProcess]]:
        with contextlib.ExitStack() as stack:
            nodes = {}
            for host, environment in self._environments.items():
                (self._directory / host).mkdir()
                told = variables(**{name: self.here(host, text) for name, text in environment.items()})
                node = SupervisedProcess([*LOGRAFT, *command], self._directory / host / "output", variables=told)
                nodes[host] = stack.enter_context(node)
                node.start()
            yield nodes

    def bootstrap(self) -> str:
        return ",".join(
            self.here(host, environment["LOGRAFT_ADVERTISED"]) for host, environment in self._environments.items()
        )


def _ports(environment: dict[str, str]) -> list[str]:
    return re.findall(r":(\d+)\b", " ".join(environment.values()))


# Kubernetes' with two brokers more than it has controllers, as `kubectl scale --replicas=5` makes it.
@pytest.mark.parametrize(
    "environments", [compose_environments(), kubernetes_environments(5)], ids=["docker", "kubernetes"]
)
def test_a_cluster_starts_serves_and_stops(tmp_path: Path, environments: dict[str, dict[str, str]]) -> None:
    machine = Machine(tmp_path, environments)
    (_, *_, program) = COMPOSE["services"]["node1"]["healthcheck"]["test"]
    command = json.loads(re.findall(r"^CMD (.*)$", (DEPLOY / "docker" / "Dockerfile").read_text(), re.MULTILINE)[0])
    (container,) = STATEFUL_SET["spec"]["template"]["spec"]["containers"]
    assert container["args"] == command
    with machine.running(command) as nodes:

        def is_ready(host: str) -> bool:
            checked = [sys.executable, "-c", machine.here(host, program)]
            return not subprocess.run(checked, check=False, capture_output=True).returncode

        for host, node in nodes.items():
            node.wait_until(functools.partial(is_ready, host), "it is ready")
        with Admin(machine.bootstrap()) as admin:
            admin.create_topic("orders", replicas=3)
            admin.wait_for_topic("orders")
            assert [broker.id for broker in admin.describe_cluster().brokers] == _node_ids(environments)
        for node in nodes.values():
            node.ask_to_stop()
        assert [node.exit_code(timeout_seconds=SHUTDOWN_SECONDS + 10) for node in nodes.values()] == [0] * len(nodes)


def _node_ids(environments: dict[str, dict[str, str]]) -> list[int]:
    return sorted(int(environment["LOGRAFT_NODE_ID"]) for environment in environments.values())


# -- systemd


def systemd_unit() -> configparser.ConfigParser:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[method-assign,assignment]
    unit.read(DEPLOY / "systemd" / "lograft.service")
    return unit


def test_the_unit_starts_again_what_can_be_started_again() -> None:
    service = systemd_unit()["Service"]
    kept_down = list(map(int, service["RestartPreventExitStatus"].split()))
    assert service["Restart"] == "on-failure"
    assert EXIT_REFUSED in kept_down
    assert EXIT_PANIC not in kept_down


def test_the_units_configuration_is_accepted() -> None:
    *_, flag, path = systemd_unit()["Service"]["ExecStart"].split()
    assert (flag, Path(path).name) == ("--config", "node.toml")
    text = (DEPLOY / "systemd" / "node.toml").read_text()
    variables_ = dict([systemd_unit()["Service"]["Environment"].split("=", 1)])
    config = read_config(SettingSources(file=parse_file("node.toml", text), variables=variables_))
    assert config.data_dirs[0].startswith("/var/lib/" + systemd_unit()["Service"]["StateDirectory"])


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "lograft.service"
    text = (DEPLOY / "systemd" / "lograft.service").read_text()
    unit.write_text(text.replace("/opt/lograft/bin/lograft", sys.executable))
    checked = subprocess.run(["systemd-analyze", "verify", str(unit)], check=False, capture_output=True, text=True)
    assert not [line for line in checked.stderr.splitlines() if "lograft" in line], checked.stderr
