"""Shows expected errors to Spark users as one sentence, without the traceback of Spark's worker."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from lograft.clients.errors import LograftError

_HIDE_TRACEBACK = "SPARK_HIDE_TRACEBACK"  # Spark's worker checks it when it reports an exception, and then exits
_IN_WORKER = ("PYTHON_WORKER_FACTORY_SECRET", "PYTHON_WORKER_FACTORY_SOCK_DIR", "PYTHON_WORKER_FACTORY_SOCK_PATH")


@contextmanager
def one_sentence() -> Iterator[None]:
    """Hide the traceback of a `LograftError` that ends a worker: its message names the cause. Bugs keep theirs."""
    try:
        yield
    except LograftError:
        if any(name in os.environ for name in _IN_WORKER):
            os.environ[_HIDE_TRACEBACK] = "1"
        raise
