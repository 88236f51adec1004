"""A node's configuration, from a TOML file, `LOGRAFT_<KEY>` variables and flags; later sources win. Pure.

config = read_config(SettingSources(file=parse_file("node.toml", text), variables=os.environ, flags={"node_id": "1"}))
"""

import difflib
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from lograft.broker.node.config_values import (
    MAX_NODE_ID,
    MAX_PORT,
    Address,
    ClusterId,
    Controllers,
    Directories,
    FilePath,
    Label,
    LogLevels,
    Role,
    Roles,
    SettingKind,
    WholeNumber,
    is_loopback,
    is_wildcard,
)
from lograft.metadata.config.cluster_config import CLUSTER_CONFIG
from lograft.metadata.config.config_key import LONG_MAX, ConfigKey, check_changes
from lograft.metadata.config.topic_config import TOPIC_CONFIG
from lograft.metadata.decisions.brokers.registration import MAX_RACK_CHARACTERS
from lograft.rpc.coded_error import ControllerError
from lograft.runtime.network import MAX_MESSAGE_BYTES

VARIABLE_PREFIX = "LOGRAFT_"
MIN_REQUEST_BYTES = 8 * 1024 * 1024
"""Clients pack batches of up to 4 MiB into one message."""
DEFAULT_LISTEN = "0.0.0.0:9092"

_NODES_PORT_DISTANCE = 2  # from the clients' port

_SHOWN_CHARACTERS = 60
_CLOSE_VARIABLE = 0.85


class ConfigRefused(Exception):
    """Raised for an invalid configuration. The message names each key, its value, and the accepted values."""


@dataclass(frozen=True, slots=True)
class Key:
    name: str
    kind: SettingKind
    description: str

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-").replace(".", "-")

    @property
    def variable(self) -> str:
        return VARIABLE_PREFIX + self.name.upper().replace(".", "_")

    @property
    def field(self) -> str:
        """Return the name of its field in `NodeConfig`."""
        return self.name.replace(".", "_")


KEYS: Mapping[str, Key] = {
    key.name: key
    for key in (
        Key("node_id", WholeNumber(0, MAX_NODE_ID), "Id of this node, unique in the cluster."),
        Key(
            "roles",
            Roles(),
            "Roles of the node: controller (keeps the metadata), broker (stores records), or both. "
            "Defaults to both if controllers names the node, else to broker.",
        ),
        Key("cluster_id", ClusterId(), "Id of the cluster, the same on all nodes."),
        Key("data_dirs", Directories(), "Directories for data. The first also holds the metadata of a controller."),
        Key(
            "disk.reserve.bytes",
            WholeNumber(0, LONG_MAX),
            "Free disk space below which a data directory accepts no records. Defaults to 5 % of the "
            "disk, at most 1 GiB.",
        ),
        Key("listen", Address(), "Address on which clients are served."),
        Key("advertised", Address(), "Address at which clients reach this node."),
        Key("controllers", Controllers(), "All controllers of the cluster."),
        Key("controller_listen", Address(), "Address on which the controller is served."),
        Key("nodes_listen", Address(), "Address on which other brokers are served, never clients."),
        Key(
            "cluster_secret_file",
            FilePath(),
            "File of secrets with which nodes authenticate each other, one a line; this node proves itself "
            "with the first.",
        ),
        Key("nodes_advertised", Address(), "Address at which other brokers reach this node."),
        Key("rack", Label(MAX_RACK_CHARACTERS), "Rack of the node: replicas are spread over racks."),
        Key("http", Address(), "Address on which /metrics, /healthz and /readyz are served; not served if absent."),
        Key(
            "max_connections",
            WholeNumber(1, 1_000_000),
            "Maximum number of client connections. Defaults to half of the open files limit, at most 10,000.",
        ),
        Key(
            "max_connections_per_address",
            WholeNumber(1, 1_000_000),
            "Maximum number of client connections from one address. Defaults to half of max_connections.",
        ),
        Key(
            "network_buffer_bytes",
            WholeNumber(16 * 1024 * 1024, 2**40),
            "Memory for requests of clients and responses to them. Defaults to an eighth of the memory, "
            "from 64 MiB to 1 GiB.",
        ),
        Key(
            "max_request_bytes",
            WholeNumber(MIN_REQUEST_BYTES, MAX_MESSAGE_BYTES),
            "Maximum size of a request from a client. A larger one is refused before it is received. "
            "Defaults to 17 MiB, and to 64 MiB once a topic has max.message.bytes above 16 MiB.",
        ),
        Key(
            "metrics_topics",
            WholeNumber(0, 10_000),
            "Maximum number of topics, and of groups, with metrics of their own at /metrics.",
        ),
        Key("log_level", LogLevels(), "Lowest level of log events to write."),
    )
}
"""All keys outside tables, by name."""

TABLES: Mapping[str, Mapping[str, ConfigKey]] = {
    "log": TOPIC_CONFIG,
    "cluster": {name: key for name, key in CLUSTER_CONFIG.items() if name not in TOPIC_CONFIG},
}
"""The tables and their keys. Together they configure a new cluster."""


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """A complete configuration.

    `cluster_settings`: the cluster's configuration at its first start. `listen`, `advertised`, `nodes_listen` and
    `nodes_advertised` are None without the role broker, `controller_listen` without the role controller.
    `cluster_secrets`: the contents of `cluster_secret_file`; empty without a file."""

    node_id: int
    roles: tuple[Role, ...]
    cluster_id: str
    data_dirs: tuple[str, ...]
    controllers: Mapping[int, str]
    listen: str | None = None
    advertised: str | None = None
    controller_listen: str | None = None
    nodes_listen: str | None = None
    nodes_advertised: str | None = None
    cluster_secret_file: str | None = None
    cluster_secrets: tuple[bytes, ...] = field(default=(), repr=False)
    rack: str | None = None
    http: str | None = None
    max_connections: int | None = None
    max_connections_per_address: int | None = None
    network_buffer_bytes: int | None = None
    max_request_bytes: int | None = None
    metrics_topics: int = 100
    log_level: str = "info"
    disk_reserve_bytes: int | None = None
    cluster_settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_broker(self) -> bool:
        return Role.BROKER in self.roles

    @property
    def is_controller(self) -> bool:
        return Role.CONTROLLER in self.roles


@dataclass(frozen=True, slots=True)
class SettingSources:
    """The sources of values, in increasing precedence. `flags`: text by key. `table_flags`: texts `key=value` by
    table."""

    file: Mapping[str, Any] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    flags: Mapping[str, str] = field(default_factory=dict)
    table_flags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def parse_file(name: str, text: str) -> dict[str, Any]:
    """Return the content of the configuration file `name`. Raise `ConfigRefused` if it is not TOML."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigRefused(f"{name} is not valid TOML: {error}") from None


def read_config(sources: SettingSources) -> NodeConfig:
    """Return the configuration from all sources. Raise `ConfigRefused`, naming all problems, if it is invalid."""
    reading = _Reading(sources)
    values = reading.values()
    settings = reading.settings()
    if not reading.problems:
        _complete(values, reading.problems)
    if reading.problems:
        raise ConfigRefused("; ".join(reading.problems))
    return NodeConfig(**values, cluster_settings=settings)


def stray_variables(variables: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the variables that look like misspelt keys, each with the likely name. Ignore others with our prefix: they
    may be a client's, or generated by Kubernetes for a service named lograft."""
    known = [key.variable for key in KEYS.values()]
    known += [_setting_variable(table, name) for table, keys in TABLES.items() for name in keys]
    for name in sorted(variables):
        if name.startswith(VARIABLE_PREFIX) and name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=_CLOSE_VARIABLE)
            if near:
                yield name, near[0]


# -- reading


class _Reading:
    def __init__(self, sources: SettingSources) -> None:
        self.problems: list[str] = []
        self._sources = sources
        self._file = dict(_with_dots(sources.file))
        for name in self._file:
            if name not in KEYS and name not in TABLES:
                self.problems.append(_unknown(name))

    def values(self) -> dict[str, Any]:
        values = {}
        for name, key in KEYS.items():
            found = self._find(key)
            if found is None:
                continue
            value, origin = found
            values[key.field] = key.kind.read(value)
            if values[key.field] is None:
                self.problems.append(f"{name}{origin} cannot be {_shown(value)}: expected {key.kind.accepts}")
        return values

    def _find(self, key: Key) -> tuple[object, str] | None:
        """Return the value with the highest precedence, and its origin."""
        sources = self._sources
        if key.name in sources.flags:
            return sources.flags[key.name], f" ({key.flag})"
        # Treat an empty variable as unset: some tools cannot leave a variable out.
        if sources.variables.get(key.variable):
            return sources.variables[key.variable], f" ({key.variable})"
        return (self._file[key.name], "") if key.name in self._file else None

    def settings(self) -> dict[str, str]:
        settings: dict[str, str] = {}
        for table, keys in TABLES.items():
            try:
                normal = check_changes(keys, self._table(table, keys), f"[{table}]")
            except ControllerError as error:
                self.problems.append(error.message)
            else:
                settings.update((name, value) for name, value in normal.items() if value is not None)
        return settings

    def _table(self, table: str, keys: Mapping[str, ConfigKey]) -> dict[str, str]:
        content = self._sources.file.get(table, {})
        if not isinstance(content, dict):
            self.problems.append(f'{table} cannot be {_shown(content)}: expected a table, [{table}], of "key" = value')
            content = {}
        settings = {name: _setting_text(value) for name, value in _flat(content)}
        for name in keys:
            if variable := self._sources.variables.get(_setting_variable(table, name)):
                settings[name] = variable
        for assignment in self._sources.table_flags.get(table, ()):
            name, separator, value = assignment.partition("=")
            if not separator:
                self.problems.append(f"--{table} cannot be {_shown(assignment)}: expected key=value")
            else:
                settings[name.strip()] = value
        return settings


def _with_dots(file: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """Yield keys with dots whole: without quotes, TOML parses such a key as nested tables."""
    for name, value in file.items():
        is_part = isinstance(value, dict) and any(key.startswith(f"{name}.") for key in KEYS)
        yield from _flat(value, f"{name}.") if is_part else ((name, value),)


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Yield nested tables as keys with dots: without quotes, TOML parses `retention.ms = 1` as nested tables."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _setting_text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ",".join(map(_setting_text, value))
    return str(value)


def _setting_variable(table: str, name: str) -> str:
    """Return the variable of a table's key: LOGRAFT_LOG_RETENTION_MS for `retention.ms` of [log]."""
    return f"{VARIABLE_PREFIX}{table}_{name}".upper().replace(".", "_")


# -- defaults and consistency


def _complete(values: dict[str, Any], problems: list[str]) -> None:
    """Add the values that follow from others, and check that all are consistent."""
    missing = [name for name in ("node_id", "cluster_id", "data_dirs", "controllers") if name not in values]
    if missing:
        problems.extend(f"{name} is missing: expected {KEYS[name].kind.accepts}" for name in missing)
        return
    is_listed = values["node_id"] in values["controllers"]
    values.setdefault("roles", tuple(Role) if is_listed else (Role.BROKER,))
    for complete, role in ((_complete_controller, Role.CONTROLLER), (_complete_broker, Role.BROKER)):
        complete(values, problems, has_role=role in values["roles"])
    _check_ports(values, problems)
    if "cluster_secret_file" not in values:
        _check_is_alone(values, problems)


def _complete_controller(values: dict[str, Any], problems: list[str], *, has_role: bool) -> None:
    node_id, controllers = values["node_id"], values["controllers"]
    if not has_role:
        values.pop("controller_listen", None)
        if node_id in controllers:
            problems.append(
                f"controllers names node {node_id}, which does not have the role controller: add the role, "
                "or remove the node from the list"
            )
    elif node_id not in controllers:
        problems.append(f"controllers does not name node {node_id}, a controller: add {node_id}@host:port")
    else:
        values.setdefault("controller_listen", controllers[node_id])


def _complete_broker(values: dict[str, Any], problems: list[str], *, has_role: bool) -> None:
    if not has_role:
        for name in ("listen", "advertised", "nodes_listen", "nodes_advertised"):
            values.pop(name, None)
        return
    listen = values.setdefault("listen", DEFAULT_LISTEN)
    advertised = values.setdefault("advertised", listen)
    if is_wildcard(advertised):
        problems.append(
            f"advertised cannot be {advertised!r}, which is not an address to connect to: set the "
            "host:port at which others reach this node"
        )
        return
    _complete_nodes_listener(values, problems)


def _complete_nodes_listener(values: dict[str, Any], problems: list[str]) -> None:
    """Default to a port next to the clients' listener, advertised under the same host."""
    if "nodes_listen" not in values:
        host, _, port = values["listen"].rpartition(":")
        nodes_port = int(port) + _NODES_PORT_DISTANCE
        if nodes_port > MAX_PORT:
            problems.append(
                f"nodes_listen is missing, and its default port {port} + {_NODES_PORT_DISTANCE} is out of "
                "range: set host:port"
            )
            return
        values["nodes_listen"] = f"{host}:{nodes_port}"
    nodes_listen = values["nodes_listen"]
    host = (values["advertised"] if is_wildcard(nodes_listen) else nodes_listen).rpartition(":")[0]
    nodes_advertised = values.setdefault("nodes_advertised", f"{host}:{nodes_listen.rpartition(':')[2]}")
    if is_wildcard(nodes_advertised):
        problems.append(
            f"nodes_advertised cannot be {nodes_advertised!r}, which is not an address to connect to: set "
            "the host:port at which other brokers reach this node"
        )


def _check_ports(values: dict[str, Any], problems: list[str]) -> None:
    taken: dict[str, str] = {}
    for name in ("listen", "controller_listen", "nodes_listen", "http"):
        address = values.get(name)
        if address is not None:
            other = taken.setdefault(address, name)
            if other != name:
                problems.append(f"{name} cannot be {address!r}, which {other} already uses: use another port")


def _check_is_alone(values: dict[str, Any], problems: list[str]) -> None:
    """Require loopback addresses without a secret: any program that can reach such a node can make it lose data."""
    reachable = [
        f"{name} is {values[name]!r}"
        for name in ("listen", "nodes_listen", "controller_listen")
        if name in values and not is_loopback(values[name])
    ]
    if reachable:
        problems.append(
            "cluster_secret_file is missing, and other hosts can reach this node "
            f"({', '.join(reachable)}): set the path of a file with a secret that all nodes share "
            "(`openssl rand -hex 32`), or use loopback addresses"
        )


# -- messages


def _unknown(name: str) -> str:
    known = [*KEYS, *TABLES]
    near = difflib.get_close_matches(name.lower(), known, n=1) if len(name) <= _SHOWN_CHARACTERS else []
    hint = f"did you mean {near[0]}? " if near else ""
    return f"unknown key {_shown(name)}: {hint}the keys are {', '.join(known)}"


def _shown(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."
