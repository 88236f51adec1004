"""The outside world of a client, which runs in another program's process and leaves its settings unchanged."""

import os

from lograft.runtime.clock import LoopClock
from lograft.runtime.disk.os_files import OsFiles
from lograft.runtime.process.allocator import free_a_large_block
from lograft.runtime.production.node_runtime import close_production_runtime
from lograft.runtime.production.threads import ThreadBlocking, ThreadWorkers
from lograft.runtime.rng import system_rng
from lograft.runtime.world import Runtime

_BLOCKING_THREADS = 4  # shared by all clients of a loop


class ForkedTooLate(Exception):
    """Raised when this process cannot have a client, with the reason."""

    def __init__(self) -> None:
        super().__init__(
            "this process was forked from one that had made a lograft client, and gRPC does not live through that: "
            "fork before the first client is made, or start processes with multiprocessing's 'spawn' or 'forkserver'"
        )


_has_made_one = False
_is_forked_too_late = False


def _after_fork() -> None:
    global _is_forked_too_late
    _is_forked_too_late = _has_made_one


os.register_at_fork(after_in_child=_after_fork)


def check_not_forked() -> None:
    """Raise `ForkedTooLate` if this process cannot have a client."""
    # Experiments showed that a client would hang, or crash the process.
    if _is_forked_too_late:
        raise ForkedTooLate


def client_runtime() -> Runtime:
    """Return a client's runtime on this machine. Call it on the client's event loop. It changes no settings of the
    process."""
    global _has_made_one
    from lograft.runtime.production.grpc_network import GrpcNetwork, start_poller

    check_not_forked()
    _has_made_one = True
    free_a_large_block()
    start_poller()
    return Runtime(
        clock=LoopClock(),
        rng=system_rng(),
        files=OsFiles(),
        network=GrpcNetwork(),
        blocking=ThreadBlocking(_BLOCKING_THREADS),
        make_worker=ThreadWorkers(_panic),
    )


def _panic(error: BaseException) -> None:
    raise AssertionError("a worker of a client, which has none") from error


async def close_client_runtime(runtime: Runtime) -> None:
    """End the runtime's threads."""
    await close_production_runtime(runtime)
