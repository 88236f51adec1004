"""`lograft dump-log FILE`: what is in a file of a data directory, and whether it is sound. Needs no cluster."""

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import click

from lograft.cli.common.cluster_options import Settings, command_flags
from lograft.cli.common.command_error import CommandError
from lograft.cli.dump.json_output import write_json
from lograft.cli.dump.problem_count import ProblemCount
from lograft.cli.dump.table import write_table
from lograft.storage.inspect.dump import DumpedSegment, SealedDocument, check_against_segment, dump_file, is_index


@click.command("dump-log")
@click.argument("path", metavar="FILE")
@click.option(
    "--deep", is_flag=True, help="Open every record of a segment; check every entry of an index against its segment."
)
@command_flags("table", "json", asks_cluster=False)
@click.pass_context
def dump_log(ctx: click.Context, settings: Settings, path: str, deep: bool) -> None:
    """Show what is in FILE, and whether it is sound.

    FILE is any file of a data directory: a segment (.log), an offset or time index, a producer snapshot, leader
    epochs, a checkpoint. What it is follows from its content; it may have any name, and needs no cluster.

    A damaged file is shown as far as it can be: each problem with its byte position, then what follows it.

    \b
    Exit code  0  all of it is valid
               1  something is not, or FILE cannot be read
               2  wrong usage

    The table says a producer's id/epoch and its sequence numbers, and times in UTC. Keys and values are in quotes,
    with backslash escapes for what is not printable UTF-8, and cut after 100 characters; then their size follows.

    In JSON, timestamps are milliseconds since 1970. Keys, values and header values are whole: a string if they are
    printable UTF-8, else {"base64": "..."}. "valid" sums up, "errors" lists what is wrong.
    """
    with open_file(path) as file:
        try:
            dump = dump_file(file, os.path.basename(path), deep=deep)
            if deep and isinstance(dump, SealedDocument) and is_index(dump):
                dump = _checked_with_segment(dump, path)
            verdict = _write(dump, path, settings.output)
        except ReadFailed as error:
            raise CommandError(f"cannot read on in {path}: {error}", "check the disk it is on") from error
    if not verdict.is_valid:
        click.echo(f"{path} is not valid: {verdict}", err=True)
        ctx.exit(1)


def _write(dump: DumpedSegment | SealedDocument, path: str, form: str) -> ProblemCount:
    out = sys.stdout
    if hasattr(out, "reconfigure"):
        out.reconfigure(errors="backslashreplace")  # a name or a record must never be what ends the dump
    verdict = (write_json if form == "json" else write_table)(dump, path, out)
    out.flush()  # here, where a reader that is gone is still handled
    return verdict


def _checked_with_segment(index: SealedDocument, path: str) -> SealedDocument:
    log_path = os.path.splitext(path)[0] + ".log"
    if not os.path.isfile(log_path):
        return replace(index, note=f"the entries were not checked: there is no {os.path.basename(log_path)} beside it")
    with open_file(log_path) as log:
        return check_against_segment(index, log, os.path.basename(log_path))


# -- the file


class ReadFailed(Exception):
    """The operating system refused to read on."""


class ReadOnlyFile:
    """A file that is only looked at: the permission to write is not needed, and nothing is ever changed."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def read(self, position: int, size: int) -> bytes:
        parts = []
        try:
            while size > 0 and (data := os.pread(self._descriptor, size, position)):
                parts.append(data)
                position += len(data)
                size -= len(data)
        except OSError as error:
            raise ReadFailed(f"{error.strerror} at byte {position}") from error
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size


@contextmanager
def open_file(path: str) -> Iterator[ReadOnlyFile]:
    """The file at `path`, open while the block runs; a `CommandError` says why it cannot be."""
    try:
        # Without waiting: a pipe that nobody writes to would hold us for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise _refusal(path, error) from error
    except ValueError as error:
        raise CommandError(f"cannot read {path!r}: {error}", "give the path of a file") from error
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise CommandError(f"{path} is a directory", _example_remedy(path))
        if not stat.S_ISREG(mode):
            raise CommandError(f"{path} is not a regular file", "copy its content to a file, and dump that")
        yield ReadOnlyFile(descriptor)
    finally:
        os.close(descriptor)


def _refusal(path: str, error: OSError) -> CommandError:
    cause = f"cannot read {path}: {error.strerror}"
    if isinstance(error, PermissionError):
        return CommandError(cause, "run it as the user that owns the file, or copy the file to where you may read it")
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        remedy = "check the path: a partition's files are in <data_dir>/<topic>-<partition>.<topic id>/"
        return CommandError(cause, remedy)
    return CommandError(cause, "check the path and the disk it is on")


def _example_remedy(path: str) -> str:
    """Name a file in the directory, if there is one that can be meant."""
    try:
        names = sorted(name for name in os.listdir(path) if name.endswith(".log"))
    except OSError:
        names = []
    return f"give a file in it, such as {os.path.join(path, names[0])}" if names else "give the path of a file"
