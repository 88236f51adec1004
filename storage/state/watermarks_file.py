"""The file `high-watermarks` of a data directory: its logs, and the high watermark of each.

The file names a log before its broker takes a role in the partition, so a log whose files are lost is not mistaken for
a new one. The file is created before `used-epoch` and never removed: a used directory without it has lost it.
"""

from collections.abc import Mapping

from lograft.runtime.files import Files, read_whole, replace_file
from lograft.storage.files.file_names import PartitionName
from lograft.storage.files.sealed_file import BrokenSeal, seal, unseal

WATERMARKS_FILE = "high-watermarks"
WATERMARKS_KIND = "lograft-high-watermarks-1"


def read_watermarks(files: Files, path: str) -> dict[PartitionName, int]:
    """Read the file of the directory at `path`. Raise FileNotFoundError if it is missing, `BrokenSeal` if it is
    damaged."""
    lines = unseal(WATERMARKS_KIND, read_whole(files, f"{path}/{WATERMARKS_FILE}")).decode().splitlines()
    watermarks = {}
    for line in lines:
        watermark, _, text = line.partition(" ")
        name = PartitionName.parse(text)
        if name is not None:
            watermarks[name] = int(watermark)
    return watermarks


def write_watermarks(files: Files, path: str, watermarks: Mapping[PartitionName, int]) -> None:
    """Replace the file. Durable on return."""
    lines = "".join(f"{watermark} {name}\n" for name, watermark in watermarks.items())
    replace_file(files, f"{path}/{WATERMARKS_FILE}", seal(WATERMARKS_KIND, lines.encode()))


def make_watermarks(files: Files, path: str) -> None:
    """Create the file without logs unless a sound one exists. Durable on return."""
    try:
        read_watermarks(files, path)
    except (FileNotFoundError, BrokenSeal):
        write_watermarks(files, path, {})
