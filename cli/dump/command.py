"""`lograft dump-log FILE`: print and verify a file of a data directory. Needs no cluster."""

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
    "--deep", is_flag=True, help="Decode every record of a segment; check every index entry against its segment."
)
@command_flags("table", "json", asks_cluster=False)
@click.pass_context
def dump_log(ctx: click.Context, settings: Settings, path: str, deep: bool) -> None:
    """Print the content of FILE and verify its integrity. No cluster is needed.

    FILE is any file of a data directory: a segment (.log), an offset or time index, a producer snapshot, leader
    epochs, or a checkpoint. The type is detected from the content, not from the name.

    Damaged files are printed as far as possible: each problem with its byte position, then the data that follows it.

    The table shows producer id/epoch, sequence numbers, and times in UTC. Keys and values are quoted, with backslash
    escapes for bytes that are not printable UTF-8. They are truncated after 100 characters, followed by their size.

    In JSON, timestamps are milliseconds since 1970. Keys, values, and header values are complete: a string if they are
    printable UTF-8, otherwise {"base64": "..."}. "valid" is the overall result; "errors" lists the problems.

    \b
    Examples:
      # Print the batches of a segment
      lograft dump-log 00000000000000000000.log
      # Decode and verify every record, as JSON
      lograft dump-log 00000000000000000000.log --deep -o json

    \b
    Exit code  0  the file is valid
               1  the file is invalid or cannot be read
               2  invalid usage
    """
    with open_file(path) as file:
        try:
            dump = dump_file(file, os.path.basename(path), deep=deep)
            if deep and isinstance(dump, SealedDocument) and is_index(dump):
                dump = _checked_with_segment(dump, path)
            verdict = _write(dump, path, settings.output)
        except ReadFailed as error:
            raise CommandError(f"read of {path} failed: {error}", "check the disk it is on") from error
    if not verdict.is_valid:
        click.echo(f"{path} is not valid: {verdict}", err=True)
        ctx.exit(1)


def _write(dump: DumpedSegment | SealedDocument, path: str, form: str) -> ProblemCount:
    out = sys.stdout
    if hasattr(out, "reconfigure"):
        out.reconfigure(errors="backslashreplace")  # a name or record that cannot be encoded must not abort the dump
    verdict = (write_json if form == "json" else write_table)(dump, path, out)
    out.flush()  # flush here, where a closed pipe is still handled
    return verdict


def _checked_with_segment(index: SealedDocument, path: str) -> SealedDocument:
    log_path = os.path.splitext(path)[0] + ".log"
    if not os.path.isfile(log_path):
        return replace(
            index, note=f"entries were not checked: {os.path.basename(log_path)} does not exist in the same directory"
        )
    with open_file(log_path) as log:
        return check_against_segment(index, log, os.path.basename(log_path))


# -- the file


class ReadFailed(Exception):
    """A read failed."""


class ReadOnlyFile:
    """A file opened for reading only."""

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
    """Open the file at `path` for the duration of the block. Raise `CommandError` if it cannot be opened."""
    try:
        # Do not block on a pipe without a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise _refusal(path, error) from error
    except ValueError as error:
        raise CommandError(f"cannot read {path!r}: {error}", "pass the path of a file") from error
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise CommandError(f"{path} is a directory", _example_remedy(path))
        if not stat.S_ISREG(mode):
            raise CommandError(f"{path} is not a regular file", "copy its content to a file and dump that")
        yield ReadOnlyFile(descriptor)
    finally:
        os.close(descriptor)


def _refusal(path: str, error: OSError) -> CommandError:
    cause = f"cannot read {path}: {error.strerror}"
    if isinstance(error, PermissionError):
        return CommandError(
            cause, "run the command as the user that owns the file, or copy the file to a place you can read"
        )
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        remedy = "check the path: a partition's files are in <data_dir>/<topic>-<partition>.<topic id>/"
        return CommandError(cause, remedy)
    return CommandError(cause, "check the path and the disk it is on")


def _example_remedy(path: str) -> str:
    """Suggest a file in the directory, if it has one of a known type."""
    try:
        names = sorted(name for name in os.listdir(path) if name.endswith(".log"))
    except OSError:
        names = []
    return f"pass a file in it, such as {os.path.join(path, names[0])}" if names else "pass the path of a file"
