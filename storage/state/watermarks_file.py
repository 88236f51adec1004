"""The file `high-watermarks` of a data directory: which logs the directory has, and how far each was committed.

A log is named before its broker takes a role, so a log whose files are lost is not mistaken for a new one. The file is
made before `used-epoch` and never removed: a directory that was used and lacks it has lost it.
"""

from collections.abc import Mapping

from lograft.runtime.files import Files, read_whole, replace_file
from lograft.storage.files.file_names import PartitionName
from lograft.storage.files.sealed_file import BrokenSeal, seal, unseal

WATERMARKS_FILE = "high-watermarks"
WATERMARKS_KIND = "lograft-high-watermarks-1"


def read_watermarks(files: Files, path: str) -> dict[PartitionName, int]:
    """Return what the file of the directory at `path` says. Raise FileNotFoundError if it is missing, `BrokenSeal` if
    it is damaged."""
    lines = unseal(WATERMARKS_KIND, read_whole(files, f"{path}/{WATERMARKS_FILE}")).decode().splitlines()
    watermarks = {}
    for line in lines:
        watermark, _, text = line.partition(" ")
        name = PartitionName.parse(text)
        if name is not None:
            watermarks[name] = int(watermark)
    return watermarks


def write_watermarks(files: Files, path: str, watermarks: Mapping[PartitionName, int]) -> None:
    """Replace the file. Durable when it returns."""
    lines = "".join(f"{watermark} {name}\n" for name, watermark in watermarks.items())
    replace_file(files, f"{path}/{WATERMARKS_FILE}", seal(WATERMARKS_KIND, lines.encode()))


def make_watermarks(files: Files, path: str) -> None:
    """Make the file, naming no log, unless a sound one is there. Durable when it returns."""
    try:
        read_watermarks(files, path)
    except (FileNotFoundError, BrokenSeal):
        write_watermarks(files, path, {})
