"""Distributes work over several new Python processes."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from typing import TypeVar

__all__ = ["core_count", "run_in_processes"]

T = TypeVar("T")
R = TypeVar("R")


def core_count() -> int:
    """Return the number of cores this process may use."""
    return len(os.sched_getaffinity(0))


def run_in_processes(work: Callable[[T], R], items: Iterable[T], jobs: int) -> Iterator[R]:
    """Yield the result of each item as it completes. With one job, run all items in this process, in order. `work`, its
    items and its results must be picklable. If the caller stops early, end all processes."""
    if jobs == 1:
        yield from map(work, items)
        return
    pool = ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn"), initializer=_begin)
    try:
        under_way: set[Future[R]] = set()
        for item in items:
            under_way.add(pool.submit(work, item))
            if len(under_way) > jobs:  # keeps every process busy without starting much work that may be discarded
                done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
                yield from (one.result() for one in done)
        while under_way:
            done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
            yield from (one.result() for one in done)
    except BaseException:
        for process in list(pool._processes.values()):
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _begin() -> None:
    """Initialise a worker process: Ctrl+C ends it silently, and it does not outlive its parent."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
