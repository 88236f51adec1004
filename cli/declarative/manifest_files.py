"""Read the resource files that `-f` names: files, directories, or standard input."""

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
    """Add the parameters `paths` and `recursive` to a command."""
    nested = click.option("-R", "--recursive", is_flag=True, help="Process directories recursively.")
    return click.option(
        "-f",
        "--filename",
        "paths",
        metavar="FILE|DIR|-",
        multiple=True,
        required=True,
        help="A file, a directory of *.yaml, *.yml and *.json files, or - for standard input. Repeatable.",
    )(nested(command))


def read_files(paths: Iterable[str], *, recursive: bool) -> list[Desired]:
    """Return the declared resources. Report everything that is wrong and raise `CommandError` if anything is."""
    try:
        desired = read_manifests([source for path in paths for source in _sources(path, recursive=recursive)])
    except BadManifest as bad:
        for problem in bad.problems[:-1]:
            click.echo(f"Error: {problem}", err=True)
        remedy = "correct the files and retry; no changes were made. `lograft explain topic` documents the fields"
        raise CommandError(bad.problems[-1], remedy) from None
    return desired


def _sources(path: str, *, recursive: bool) -> Iterator[tuple[str, str]]:
    """Yield each text with the name of its source."""
    if path == "-":
        yield "standard input", _decoded("standard input", sys.stdin.buffer.read())
        return
    place = Path(path)
    if not place.exists():
        raise click.UsageError(f"file or directory {path!r} does not exist")
    files = list(_files_in(place, recursive=recursive)) if place.is_dir() else [place]
    if not files:
        inside = "" if recursive else "; pass -R to process its subdirectories"
        raise click.UsageError(f"{path!r} contains no files ending in {', '.join(_ENDINGS)}{inside}")
    for file in files:
        yield str(file), _decoded(str(file), file.read_bytes())


def _files_in(directory: Path, *, recursive: bool) -> Iterator[Path]:
    """Return the files sorted by name, without hidden ones."""
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
