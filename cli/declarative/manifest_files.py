"""The resource files that `-f` names: files, directories of them, or standard input."""

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import click

from lograft.cli.common.command_error import CommandError
from lograft.cli.declarative.desired_state import Desired
from lograft.cli.declarative.manifest_parser import BadManifest, read_manifests

F = TypeVar("F", bound=Callable[..., Any])

_ENDINGS = (".yaml", ".yml", ".json")


def file_options(command: F) -> F:
    """Gives a command `paths` and `recursive`."""
    nested = click.option("-R", "--recursive", is_flag=True, help="Directories inside directories, too.")
    return click.option(
        "-f",
        "--filename",
        "paths",
        metavar="FILE|DIR|-",
        multiple=True,
        required=True,
        help="A file, a directory of *.yaml, *.yml and *.json, or - for standard input; repeatable.",
    )(nested(command))


def read_files(paths: Iterable[str], *, recursive: bool) -> list[Desired]:
    """All that they want. Whatever is wrong with them is told, and nothing is done."""
    try:
        desired = read_manifests([source for path in paths for source in _sources(path, recursive=recursive)])
    except BadManifest as bad:
        for problem in bad.problems[:-1]:
            click.echo(f"Error: {problem}", err=True)
        remedy = "mend that, and try again: nothing was changed; `lograft explain topic` shows what a file can say"
        raise CommandError(bad.problems[-1], remedy) from None
    return desired


def _sources(path: str, *, recursive: bool) -> Iterator[tuple[str, str]]:
    """Each text with its name."""
    if path == "-":
        yield "standard input", _decoded("standard input", sys.stdin.buffer.read())
        return
    place = Path(path)
    if not place.exists():
        raise click.UsageError(f"there is no file or directory {path!r}")
    files = list(_files_in(place, recursive=recursive)) if place.is_dir() else [place]
    if not files:
        inside = "" if recursive else "; -R looks into directories inside it, too"
        raise click.UsageError(f"{path!r} has no files that end in {', '.join(_ENDINGS)}{inside}")
    for file in files:
        yield str(file), _decoded(str(file), file.read_bytes())


def _files_in(directory: Path, *, recursive: bool) -> Iterator[Path]:
    """In order of their names, without hidden ones."""
    for place in sorted(directory.iterdir()):
        if place.name.startswith("."):
            continue
        if place.is_dir():
            if recursive:
                yield from _files_in(place, recursive=True)
        elif place.suffix in _ENDINGS:
            yield place


def _decoded(source: str, content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise CommandError(f"{source}, line {line}: not UTF-8 text", "save it as UTF-8") from None
