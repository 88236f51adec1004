"""Valid topic names, and collisions between them. Pure."""

import re
from collections.abc import Mapping

from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ControllerError

MAX_NAME_CHARACTERS = 180  # a partition's directory has the name, a number and an id in its own name
INTERNAL_PREFIX = "__"

_BAD_CHARACTER = re.compile(r"[^A-Za-z0-9._-]")


def check_topic_name(name: str, *, internal: bool = False) -> None:
    """Raise INVALID_TOPIC unless a topic may have this name. `internal`: it is one of the cluster's own."""
    if not name:
        raise _invalid("a topic needs a name: give one of 1 to 180 letters, digits, dots, underscores and hyphens")
    if len(name) > MAX_NAME_CHARACTERS:
        raise _invalid(
            f"the topic name {name[:20]!a}... has {len(name)} characters: give one of at most {MAX_NAME_CHARACTERS}"
        )
    bad = _BAD_CHARACTER.search(name)
    if bad is not None:
        raise _invalid(
            f"the topic name {name!a} has {bad[0]!a} at character {bad.start() + 1}: "
            "use letters (A to Z), digits, dots, underscores and hyphens only"
        )
    if name in (".", ".."):
        raise _invalid(f"a topic cannot be called {name!r}, which means a directory: give another name")
    if name.startswith(INTERNAL_PREFIX) and not internal:
        raise _invalid(
            f"the topic name {name!r} begins with {INTERNAL_PREFIX!r} as the cluster's own topics do: give another name"
        )


def collision_key(name: str) -> str:
    """Return the same key for names that metrics, where a dot becomes an underscore, cannot tell apart."""
    return name.replace(".", "_")


def find_collision(name: str, names: Mapping[str, str]) -> str | None:
    """Return the name that collides with `name`, if any. `names`: each existing name by its `collision_key`."""
    existing = names.get(collision_key(name))
    return existing if existing != name else None


def check_collision(name: str, names: Mapping[str, str]) -> None:
    """Raise INVALID_TOPIC if another existing name collides with this one."""
    existing = find_collision(name, names)
    if existing is not None:
        raise _invalid(
            f"the topic name {name!r} collides with the existing {existing!r}: metrics do not tell '.' from '_'; "
            "give another name"
        )


def _invalid(message: str) -> ControllerError:
    return ControllerError(errors_pb2.INVALID_TOPIC, message)
