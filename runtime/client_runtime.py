"""The outside world of a client: a guest in somebody else's process, which it leaves as it was."""

from lograft.runtime.clock import LoopClock
from lograft.runtime.os_files import OsFiles
from lograft.runtime.production import close_production_runtime
from lograft.runtime.rng import system_rng
from lograft.runtime.threads import ThreadBlocking, ThreadWorkers
from lograft.runtime.world import Runtime

_BLOCKING_THREADS = 2


def client_runtime() -> Runtime:
    """A client's runtime on this machine. Call on the client's loop. Nothing of the process is changed by it."""
    from lograft.runtime.grpc_network import GrpcNetwork

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
    """End its threads."""
    await close_production_runtime(runtime)
