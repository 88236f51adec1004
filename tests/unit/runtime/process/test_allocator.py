import platform
import subprocess
import sys

import pytest

from lograft.runtime.process import allocator

# Each round frees and allocates 5,000 pages. In a process of its own: the setting is for good.
COUNT_PAGE_FAULTS = """
import resource, sys
from lograft.runtime.process.allocator import free_a_large_block, keep_freed_memory
if sys.argv[1] == "keep":
    assert keep_freed_memory()
if sys.argv[1] == "adapt":
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    free_a_large_block()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < 1000
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(3):
    bytearray(20_480_000)
before = faults()
for _ in range(10):
    blocks = [bytearray(20_480_000), bytearray(20_480_000)]
    del blocks
print(faults() - before)
"""


def page_faults(setting: str) -> int:
    command = [sys.executable, "-c", COUNT_PAGE_FAULTS, setting]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has these settings")
def test_freed_blocks_are_used_again_without_asking_the_kernel() -> None:
    assert page_faults("keep") < 20_000 < page_faults("default")


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc adapts so")
def test_glibc_keeps_freed_blocks_once_it_was_shown_a_large_one() -> None:
    assert page_faults("adapt") < 20_000


def test_nothing_is_done_where_there_is_no_glibc(monkeypatch: pytest.MonkeyPatch) -> None:
    class OtherLibrary:
        pass

    monkeypatch.setattr(allocator.ctypes, "CDLL", lambda _: OtherLibrary())  # type: ignore[attr-defined]
    assert allocator.keep_freed_memory() is False
