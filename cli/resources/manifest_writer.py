"""Write resources as files with names and specs only, so that they can be applied to any cluster. Pure."""

import re
from collections.abc import Iterable, Mapping

from lograft.cli.output.resource_output import Resource, resource, yaml_text
from lograft.cli.resources.config_resources import Owner

_WHOLE = re.compile(r"-?[1-9][0-9]{0,14}|0", flags=re.ASCII)  # not all JSON readers preserve more digits
_RATIO = re.compile(r"0\.[0-9]{1,6}|1\.0", flags=re.ASCII)


def declared_topic(name: str, partitions: int, replicas: int, config: Mapping[str, str]) -> Resource:
    settings = {key: _plain(config[key]) for key in sorted(config)}
    return resource("Topic", {"name": name}, spec={"partitions": partitions, "replicas": replicas, "config": settings})


def declared_setting(owner: Owner, key: str, value: str | None) -> Resource:
    return resource("Config", {"name": f"{owner}/{key}"}, spec={"value": None if value is None else _plain(value)})


def yaml_documents(resources: Iterable[Resource]) -> str:
    """Return YAML documents with separators."""
    return "---\n".join(map(yaml_text, resources))


def _plain(value: str) -> str | int | float | bool:
    """Return an integer if it reads back as the same string."""
    if value in ("true", "false"):
        return value == "true"
    if _WHOLE.fullmatch(value):
        return int(value)
    if _RATIO.fullmatch(value) and str(float(value)) == value:
        return float(value)
    return value
