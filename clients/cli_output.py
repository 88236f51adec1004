"""Resources as a person or a program wants to see them."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TextIO, TypeAlias

from lograft.clients.cli_options import Settings

API_VERSION = "lograft/v1"

Resource: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Column:
    """One of a table. `is_wide`: only in wide ones."""

    title: str
    cell: Callable[[Resource], Any]
    is_number: bool = False
    is_wide: bool = False


def resource(
    kind: str, metadata: Resource, *, spec: Resource | None = None, status: Resource | None = None
) -> Resource:
    parts = {"spec": spec, "status": status}
    named = {name: part for name, part in parts.items() if part is not None}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, **named}


def write_resources(
    out: TextIO, resources: Sequence[Resource], columns: Sequence[Column], settings: Settings, *, is_one: bool
) -> None:
    """`is_one`: one was asked for by name, and is shown as itself, not as a list."""
    match settings.output:
        case "json" | "yaml":
            content = resources[0] if is_one else {"apiVersion": API_VERSION, "kind": "List", "items": list(resources)}
            write_document(out, content, settings.output)
        case "name":
            for each in resources:
                out.write(f"{each['kind'].lower()}/{each['metadata']['name']}\n")
        case _:
            is_wide = settings.output == "wide"
            shown = [column for column in columns if is_wide or not column.is_wide]
            rows = [[cell_text(column.cell(each)) for column in shown] for each in resources]
            write_table(out, shown, rows, has_titles=settings.has_titles)


def write_document(out: TextIO, content: Any, form: str) -> None:
    if form == "yaml":
        import yaml

        yaml.safe_dump(content, out, sort_keys=False, allow_unicode=True, width=1000)
    else:
        out.write(json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def write_table(out: TextIO, columns: Sequence[Column], rows: Sequence[Sequence[str]], *, has_titles: bool) -> None:
    """Aligned: numbers to the right, all else to the left."""
    titled = [[column.title for column in columns], *rows] if has_titles else rows
    widths = [max((len(row[at]) for row in titled), default=0) for at in range(len(columns))]
    for row in titled:
        cells = [
            cell.rjust(width) if column.is_number else cell.ljust(width)
            for cell, width, column in zip(row, widths, columns, strict=True)
        ]
        out.write("   ".join(cells).rstrip() + "\n")


def cell_text(value: Any) -> str:
    if value is None or value == [] or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value)
