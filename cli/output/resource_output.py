"""Write resources as tables, JSON, YAML, names or by a template."""

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TextIO, TypeAlias

from lograft.cli.common.cluster_options import Settings
from lograft.cli.common.common_flags import JSONPATH

API_VERSION = "lograft/v1"

Resource: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Column:
    """A table column. `is_wide`: only in wide tables. `is_bad`: whether to print a cell in red."""

    title: str
    cell: Callable[[Resource], Any]
    is_number: bool = False
    is_wide: bool = False
    is_bad: Callable[[Resource], Any] | None = None


def resource(
    kind: str, metadata: Resource, *, spec: Resource | None = None, status: Resource | None = None
) -> Resource:
    parts = {"spec": spec, "status": status}
    named = {name: part for name, part in parts.items() if part is not None}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, **named}


def write_resources(
    out: TextIO, resources: Sequence[Resource], columns: Sequence[Column], settings: Settings, *, is_one: bool
) -> None:
    """Write resources. `is_one`: write a single resource instead of a list."""
    if settings.is_document:
        content = resources[0] if is_one else {"apiVersion": API_VERSION, "kind": "List", "items": list(resources)}
        write_document(out, content, settings.output)
    elif settings.output == "name":
        for each in resources:
            out.write(f"{resource_name(each)}\n")
    else:
        out.writelines(table_lines(resources, columns, settings, is_coloured=has_colours(out)))


def resource_name(each: Resource) -> str:
    return f"{each['kind'].lower()}/{each['metadata']['name']}"


def write_document(out: TextIO, content: Any, form: str) -> None:
    """`form`: json, yaml, or jsonpath=TEMPLATE."""
    if form.startswith(JSONPATH):
        from lograft.cli.common.jsonpath import render
        from lograft.cli.common.jsonpath_parser import parse_template

        out.write(render(parse_template(form.removeprefix(JSONPATH)), content))
    elif form == "yaml":
        out.write(yaml_text(content))
    else:
        out.write(json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def yaml_text(content: Any) -> str:
    import yaml

    text: str = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=1000)
    return text


# -- tables

_RED = "\x1b[31m"
_PLAIN = "\x1b[0m"


def has_colours(out: TextIO) -> bool:
    """Whether to use colours: on a terminal that has them, unless NO_COLOR is set (see no-color.org)."""
    return out.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def table_lines(
    resources: Sequence[Resource],
    columns: Sequence[Column],
    settings: Settings,
    *,
    is_coloured: bool = False,
    widths: list[int] | None = None,
) -> list[str]:
    """Format a row, and widen `widths` as needed."""
    shown = [column for column in columns if settings.output == "wide" or not column.is_wide]
    rows = [[cell_text(column.cell(each)) for column in shown] for each in resources]
    reds = [
        [at for at, column in enumerate(shown) if is_coloured and column.is_bad is not None and column.is_bad(each)]
        for each in resources
    ]
    if settings.has_titles:
        rows, reds = [[column.title for column in shown], *rows], [[], *reds]
    widths = widths if widths is not None else []
    widths += [0] * (len(shown) - len(widths))
    widths[:] = [max(width, *(len(row[at]) for row in rows), 0) for at, width in enumerate(widths)]
    return [_line(row, shown, widths, bad) for row, bad in zip(rows, reds, strict=True)]


def red(text: str) -> str:
    return f"{_RED}{text}{_PLAIN}"


def _line(row: Sequence[str], columns: Sequence[Column], widths: Sequence[int], reds: Sequence[int]) -> str:
    cells = []
    for at, (cell, column, width) in enumerate(zip(row, columns, widths, strict=True)):
        coloured = red(cell) if at in reds else cell
        blanks = " " * (width - len(cell))
        cells.append(blanks + coloured if column.is_number else coloured + blanks)
    return "   ".join(cells).rstrip() + "\n"


def cell_text(value: Any) -> str:
    if value is None or value == [] or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value)
