"""The kinds of values in a node's configuration, and how to parse each from a file or from text. Pure."""

import ipaddress
import re
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from lograft.runtime.observability.log_levels import ACCEPTS, normal_levels

MAX_NODE_ID = 2**31 - 1
MAX_PORT = 65535

_WHOLE = re.compile(r"[0-9]{1,20}")
_HOST = r"(?:\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]{1,253})"
_ADDRESS = re.compile(rf"({_HOST}):([0-9]{{1,5}})")
_CONTROLLER = re.compile(rf"([0-9]{{1,10}})@({_HOST}:[0-9]{{1,5}})")
_CLUSTER_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


class Role(Enum):
    CONTROLLER = "controller"
    BROKER = "broker"


class SettingKind(Protocol):
    """A kind of value. `read` parses a file's value or a text, and returns None if it is invalid. `accepts` describes
    the valid values."""

    @property
    def accepts(self) -> str: ...

    def read(self, value: object) -> object | None: ...


@dataclass(frozen=True, slots=True)
class WholeNumber:
    lowest: int
    highest: int

    @property
    def accepts(self) -> str:
        return f"a whole number from {self.lowest} to {self.highest}"

    def read(self, value: object) -> int | None:
        if isinstance(value, str) and _WHOLE.fullmatch(value.strip()):
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            return None
        return value if self.lowest <= value <= self.highest else None


@dataclass(frozen=True, slots=True)
class LogLevels:
    accepts: str = ACCEPTS

    def read(self, value: object) -> str | None:
        return normal_levels(value) if isinstance(value, str) else None


@dataclass(frozen=True, slots=True)
class ClusterId:
    accepts: str = "1 to 64 letters, digits, dots, dashes and underscores, the same on every node of the cluster"

    def read(self, value: object) -> str | None:
        return value.strip() if isinstance(value, str) and _CLUSTER_ID.fullmatch(value.strip()) else None


@dataclass(frozen=True, slots=True)
class Label:
    """A name chosen by an operator."""

    max_characters: int

    @property
    def accepts(self) -> str:
        return f"a name of 1 to {self.max_characters} printable characters"

    def read(self, value: object) -> str | None:
        name = value.strip() if isinstance(value, str) else ""
        return name if 0 < len(name) <= self.max_characters and name.isprintable() else None


@dataclass(frozen=True, slots=True)
class Address:
    accepts: str = 'host:port, such as "host1:9092"; an IPv6 address in brackets'

    def read(self, value: object) -> str | None:
        match = _ADDRESS.fullmatch(value.strip()) if isinstance(value, str) else None
        return match[0] if match is not None and 0 < int(match[2]) <= MAX_PORT else None


@dataclass(frozen=True, slots=True)
class Directories:
    accepts: str = 'one or more distinct directories: ["/var/lib/lograft"], or separated by commas'

    def read(self, value: object) -> tuple[str, ...] | None:
        words = words_of(value)
        paths = tuple(dict.fromkeys(word.rstrip("/") or "/" for word in words if word and "\0" not in word))
        return paths if paths and len(paths) == len(words) else None


@dataclass(frozen=True, slots=True)
class FilePath:
    accepts: str = 'the path of a file, such as "/etc/lograft/cluster.secret"'

    def read(self, value: object) -> str | None:
        path = value.strip() if isinstance(value, str) else ""
        return path if path and "\0" not in path else None


@dataclass(frozen=True, slots=True)
class Roles:
    accepts: str = "controller, broker, or both"

    def read(self, value: object) -> tuple[Role, ...] | None:
        words = words_of(value)
        known = [role.value for role in Role]
        if not words or any(word not in known for word in words):
            return None
        return tuple(role for role in Role if role.value in words)


@dataclass(frozen=True, slots=True)
class Controllers:
    """The address of each controller, by node id."""

    accepts: str = 'each controller once, as id@host:port: ["1@host1:9093", "2@host2:9093"], or separated by commas'

    def read(self, value: object) -> dict[int, str] | None:
        words = words_of(value)
        matches = [match for match in map(_CONTROLLER.fullmatch, words) if match is not None]
        controllers = {int(match[1]): match[2] for match in matches}
        # A duplicate id or address, or a word that does not match, lowers the count.
        if not words or len(dict.fromkeys(controllers.values())) != len(words) or len(controllers) != len(words):
            return None
        is_sound = all(Address().read(address) for address in controllers.values()) and max(controllers) <= MAX_NODE_ID
        return dict(sorted(controllers.items())) if is_sound else None


def words_of(value: object) -> list[str]:
    """Return the items of a list, or of a comma-separated text. Return an empty list for anything else."""
    if isinstance(value, str):
        value = value.split(",")
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        return []
    return [word.strip() for word in value]


def host_of(address: str) -> str:
    """Return the host of an address, without brackets."""
    return address.rpartition(":")[0].strip("[]")


def is_wildcard(address: str) -> bool:
    """Return whether the address is a wildcard, to which others cannot connect."""
    return host_of(address) in ("0.0.0.0", "::", "*")


def is_loopback(address: str) -> bool:
    """Return whether the address is reachable only from this machine."""
    host = host_of(address)
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False  # a name, not resolved yet
