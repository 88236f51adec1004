"""Settings of the C allocator.

Brokers and clients allocate blocks of a megabyte. By default, glibc returns them to the kernel on every free, and the
next allocation faults them in again. Keeping them doubles a stream's throughput.
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
    (_M_MMAP_THRESHOLD, 32 * _MEBIBYTE),  # glibc's maximum
    (_M_TRIM_THRESHOLD, 256 * _MEBIBYTE),  # free memory kept at the top of the heap
    (_M_TOP_PAD, 16 * _MEBIBYTE),  # the heap grows by at least this much
    (_M_MMAP_MAX, 0),  # blocks above the threshold come from the heap, too
)
_LARGEST_BLOCK_BYTES = 31 * _MEBIBYTE  # slightly below glibc's limit for adapting


def keep_freed_memory() -> bool:
    """Keep freed memory in this process for later allocations. Without glibc, do nothing and return False."""
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
    """Return the freed memory of all glibc arenas to the kernel, which may be gigabytes after a burst. This takes some
    milliseconds without the interpreter lock. Without glibc, do nothing."""
    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def free_a_large_block() -> None:
    """Keep freed memory like `keep_freed_memory`, for a library inside another program.

    glibc adapts when a program frees large blocks: it then allocates blocks up to that size from the heap, and keeps
    twice that size at the top. So allocate and free one large block, which is never touched. This has no effect if the
    limits are set explicitly, or without glibc.

    Measured: without it, receiving a GiB cost a client 200,000 page faults, a third of its CPU time.
    """
    bytes(_LARGEST_BLOCK_BYTES)  # the kernel provides zeroed memory, so nothing is written
