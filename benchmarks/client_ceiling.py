"""What no client can pass: as many bytes as the records have, on a bare gRPC stream between two processes of this
machine, with nothing made of them at either end."""

from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from time import perf_counter, process_time
from typing import Any

from bare_stream import BareStream
from client_trials import Records, Trial

from lograft.runtime.tasks.loop_thread import shared_loop

NAME = "a bare gRPC stream of those bytes"
_MESSAGE_BYTES = 512 * 1024  # as the producer's batches
_IN_FLIGHT = 8


class Ceiling:
    """On the loop of the clients, as gRPC wants."""

    def __init__(self, bare: BareStream) -> None:
        self._bare = bare

    def sending(self, records: Records) -> Trial:
        """There, each message acknowledged."""
        count = max(1, records.count * records.bytes_each // _MESSAGE_BYTES)
        return self._trial(records, partial(self._bare.send_messages, _MESSAGE_BYTES, count, _IN_FLIGHT))

    def receiving(self, records: Records) -> Trial:
        """Back, as fast as they are taken."""
        total_bytes = records.count * records.bytes_each
        return self._trial(records, partial(self._bare.bytes_per_second, _MESSAGE_BYTES, total_bytes))

    def _trial(self, records: Records, work: Callable[[], Coroutine[Any, Any, object]]) -> Trial:
        started, used = perf_counter(), process_time()
        shared_loop().run(work)
        return Trial(records.count, perf_counter() - started, process_time() - used)


@contextmanager
def ceiling(address: str) -> Iterator[Ceiling]:
    """With a server of its own."""
    bare, loop = BareStream(address), shared_loop()
    loop.run(bare.__aenter__)
    try:
        yield Ceiling(bare)
    finally:
        loop.run(bare.__aexit__, None, None, None)
