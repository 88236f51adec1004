"""`lograft mark-restored DIR...`: mark data directories as restored from a copy. Needs no cluster.

Exit codes: 0 if all are marked; 1 if one cannot be marked: those before it are marked, those after it are not.
"""

import click

from lograft.broker.node.controller_role import METADATA_FOLDER
from lograft.runtime.disk.os_files import OsFiles
from lograft.storage.errors import DirectoryRefused
from lograft.storage.log.data_directory import mark_restored as mark


class MarkRefused(click.ClickException):
    exit_code = 1


@click.command("mark-restored")
@click.argument("directories", metavar="DIR...", nargs=-1, required=True)
def mark_restored(directories: tuple[str, ...]) -> None:
    """Mark data directories of a stopped node as put back from a copy.

    DIR is one of the node's data_dirs. What a marked directory holds counts for nothing until it has caught up with
    the leaders: none of its replicas is elected for what it has. Nothing is discarded.

    The controller recognises a copy by the epoch that the directory was last used in. Two cases need the mark: a copy
    that was made while the node ran and put back before the node was started again; and controllers whose own data are
    older than the copy, which a broker reports when it starts.

    \b
    Exit code  0  all of them are marked
               1  one cannot be, or is in use: those named after it are not marked either
    """
    files = OsFiles()
    try:
        for directory in directories:
            path = directory.rstrip("/") or "/"
            try:
                identity = mark(files, path)
            except DirectoryRefused as error:
                raise MarkRefused(str(error)) from None
            click.echo(f"{path} is marked as restored from a copy: directory {identity}")
            if files.exists(f"{path}/{METADATA_FOLDER}"):
                click.echo(
                    f"{path}/{METADATA_FOLDER} is the metadata of a controller, and is not marked: if it "
                    "was restored from a copy, too, and the other controllers' metadata was not, move it "
                    "away, start the node, and restore its vote with `lograft quorum replace {2}`; one "
                    "node at a time: wait until that command has succeeded before you move away the "
                    "metadata of another node",
                    err=True,
                )
    finally:
        files.close()
