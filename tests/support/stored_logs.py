"""What the files of a partition hold on a node's disk, read with the dump's eyes."""

from pathlib import Path
from typing import NamedTuple

from support.server_processes import ServerProcess

from lograft.cli.dump.command import open_file
from lograft.storage.batch.header import BatchHeader
from lograft.storage.batch.record import Columns
from lograft.storage.files.file_names import LOG_SUFFIX
from lograft.storage.inspect.dump import Cell, DumpedBatch, SealedDocument, dump_file
from lograft.storage.state.checkpoint import EPOCHS_FILE


class StoredLog(NamedTuple):
    """Batch by batch, with every record of each, and the leader epochs that have any."""

    batches: list[tuple[BatchHeader, Columns | None]]
    epochs: tuple[tuple[Cell, ...], ...]


def partition_directory(node: ServerProcess, topic: str, partition: int) -> Path | None:
    """None if the node has none."""
    return next(node.data_directory.glob(f"{topic}-{partition}.*"), None)


def stored_log(node: ServerProcess, topic: str, partition: int) -> StoredLog:
    """All of it has to be sound. How it is cut into segments is each replica's own affair."""
    directory = partition_directory(node, topic, partition)
    assert directory is not None, f"node {node.node_id} has nothing of {topic}-{partition}"
    batches: list[tuple[BatchHeader, Columns | None]] = []
    for path in sorted(directory.glob(f"*{LOG_SUFFIX}")):
        batches += _batches(path)
    with open_file(str(directory / EPOCHS_FILE)) as file:
        epochs = dump_file(file, EPOCHS_FILE)
    assert isinstance(epochs, SealedDocument)
    assert epochs.problems == ()
    # A follower hears of an epoch with its first record: one without may be known to its leader alone.
    end = batches[-1][0].next_offset if batches else 0
    starts = {start: (epoch, start) for epoch, start in epochs.rows if isinstance(start, int) and start < end}
    return StoredLog(batches, tuple(starts.values()))


def _batches(path: Path) -> list[tuple[BatchHeader, Columns | None]]:
    with open_file(str(path)) as file:
        dump = dump_file(file, path.name, deep=True)
        if isinstance(dump, SealedDocument):
            assert dump.kind == "empty", f"{path} is no segment: {dump}"
            return []
        found = []
        for item in dump.items:
            assert isinstance(item, DumpedBatch), f"{path}: {item}"
            assert item.problems == (), f"{path}: {item.problems}"
            found.append((item.header, item.records))
        return found
