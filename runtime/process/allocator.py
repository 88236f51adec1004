"""The C allocator's settings: brokers and clients move blocks of a megabyte, which glibc by default returns to the
kernel on every free and gets back, page fault by page fault, on the next allocation. Keeping them doubles a stream's
throughput.
"""

import contextlib
import ctypes

# <malloc.h>
_M_TRIM_THRESHOLD = -1
_M_TOP_PAD = -2
_M_MMAP_THRESHOLD = -3
_M_MMAP_MAX = -4

_MEBIBYTE = 1024 * 1024
_SETTINGS = (
    (_M_MMAP_THRESHOLD, 32 * _MEBIBYTE),  # the most that glibc takes
    (_M_TRIM_THRESHOLD, 256 * _MEBIBYTE),  # free memory kept at the top of the heap
    (_M_TOP_PAD, 16 * _MEBIBYTE),  # the heap grows by at least this much
    (_M_MMAP_MAX, 0),  # blocks above the threshold come from the heap, too
)
_LARGEST_BLOCK_BYTES = 31 * _MEBIBYTE  # a little less than what glibc adapts to at the most


def keep_freed_memory() -> bool:
    """Let this process keep freed memory for its next allocations. False where there is no glibc: nothing was done."""
    try:
        library = ctypes.CDLL(None)
        library.gnu_get_libc_version  # noqa: B018 (other C libraries have no such function)
        mallopt = library.mallopt
    except (AttributeError, OSError, TypeError):
        return False
    mallopt.argtypes = (ctypes.c_int, ctypes.c_int)
    mallopt.restype = ctypes.c_int
    outcomes = [mallopt(parameter, value) for parameter, value in _SETTINGS]
    return all(outcome == 1 for outcome in outcomes)


def give_back_memory() -> None:
    """Have glibc return what it keeps of freed memory, in all its arenas: after a burst that may be gigabytes. It takes
    some milliseconds; others run meanwhile. Nothing happens where there is no glibc."""
    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def free_a_large_block() -> None:
    """What a guest may do about it: glibc adapts to a program that frees large blocks, and takes those of up to the
    largest that it has seen from the heap, of which it then leaves twice as much. So it is shown one, which is never
    touched. Nothing happens where somebody has set these limits himself, or there is no glibc.

    Measured: receiving a GiB cost a client 200,000 page faults without, a third of its processor time.
    """
    bytes(_LARGEST_BLOCK_BYTES)  # zeroed memory: the kernel's, not written to
