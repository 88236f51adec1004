"""The outside world of a node in production."""

import asyncio
import os
import re
import sys
from importlib.util import find_spec

from lograft.runtime.clock import Clock, LoopClock
from lograft.runtime.disk.os_files import OsFiles
from lograft.runtime.files import Files
from lograft.runtime.network import PanicHandler
from lograft.runtime.process.host import boot_id
from lograft.runtime.production.threads import ThreadBlocking, ThreadWorkers
from lograft.runtime.rng import system_rng
from lograft.runtime.world import Runtime

_BLOCKING_THREADS = 8
_PING_INTERVAL_MS = 10_000  # the streams between nodes have keep-alives of their own, which are much more frequent

# A thread that returns from the disk requests the interpreter lock only after waiting for a whole switch interval in
# which nobody released it. A busy loop releases it at every poll, and retakes it before the waiter is awake. So with
# the default interval of 5 ms, a finished fsync went unnoticed for up to seconds. Measured with polls 0.1 to 1 ms
# apart: p99 5 to 250 ms by default, 5 to 30 ms with 50 us. Much less is worse: at 5 us, with exact timers, the threads
# only took turns.
_SWITCH_INTERVAL_S = 0.00005

# By default, gRPC (since 1.66) waits for sockets in a pool of threads: the thread that detects a message hands it to
# another that reads it, which hands it to grpc.aio's thread, which hands it to the loop. Without the pool, grpc.aio's
# thread reads it. Measured with 1.85 on two cores: a message and its answer cost 0.6 times the CPU time when idle, and
# take 0.75 times as long.
_WITHOUT_POOL = "-event_engine_client,-event_engine_listener"
# The versions known to support that. Others would warn about an unknown experiment on stderr.
_FIRST_WITHOUT_POOL, _LAST_WITHOUT_POOL = (1, 71), (1, 85)
_VERSION_FILE = "_grpcio_metadata.py"


FAULTS_VARIABLE = "LOGRAFT_FAULTS"
"""Only for tests of whole clusters: names the directory with the faults of the machine."""


def production_runtime(on_panic: PanicHandler) -> Runtime:
    """Return a node's runtime on this machine. Call it on the node's event loop. Broken invariants call `on_panic`
    there."""
    wait_without_pool()
    # Import late: programs that only read files should not wait for gRPC.
    from lograft.runtime.production.grpc_network import GrpcNetwork

    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    clock, files = _clock_and_files(os.environ.get(FAULTS_VARIABLE))
    return Runtime(
        clock=clock,
        rng=system_rng(),
        files=files,
        network=GrpcNetwork(ping_interval_ms=_PING_INTERVAL_MS),
        blocking=ThreadBlocking(_BLOCKING_THREADS),
        make_worker=ThreadWorkers(on_panic),
    )


def _clock_and_files(faults: str | None) -> tuple[Clock, Files]:
    if not faults:
        return LoopClock(), OsFiles()
    from lograft.runtime.faults.faulty_clock import FaultyClock, run_loop_at_rate
    from lograft.runtime.faults.faulty_files import FaultyFiles
    from lograft.runtime.faults.settings import FaultSwitch

    switch = FaultSwitch(faults)
    run_loop_at_rate(asyncio.get_running_loop(), lambda: switch.settings.clock_rate)
    return FaultyClock(switch), FaultyFiles(switch)


def node_boot_id() -> str:
    """Return the machine's boot id, or another one if a test simulates a loss of the page cache."""
    faults = os.environ.get(FAULTS_VARIABLE)
    if not faults:
        return boot_id()
    from lograft.runtime.faults.settings import read_settings

    return read_settings(faults).boot_id or boot_id()


async def close_production_runtime(runtime: Runtime) -> None:
    """End all threads, once their work is done. Owners must close servers and connections first."""
    # Workers and blocking functions use the files, so close those last.
    if isinstance(runtime.make_worker, ThreadWorkers):
        await runtime.make_worker.close()
    await runtime.blocking.close()
    if isinstance(runtime.files, OsFiles):
        runtime.files.close()


def wait_without_pool() -> None:
    """Make gRPC wait without its thread pool in this process.

    No effect once gRPC is imported, or if `GRPC_EXPERIMENTS` is set.
    """
    version = _grpc_version()
    if version is not None and _FIRST_WITHOUT_POOL <= version <= _LAST_WITHOUT_POOL:
        os.environ.setdefault("GRPC_EXPERIMENTS", _WITHOUT_POOL)


def _grpc_version() -> tuple[int, int] | None:
    """Return the version without importing gRPC, which would be too late, or importlib.metadata, which takes a fifth of
    gRPC's import time."""
    spec = find_spec("grpc")
    if spec is None or spec.origin is None:
        return None
    try:
        with open(os.path.join(os.path.dirname(spec.origin), _VERSION_FILE), encoding="utf-8") as file:
            found = re.search(r"__version__ = \W*(\d+)\.(\d+)\.", file.read())
    except OSError:
        return None
    return (int(found[1]), int(found[2])) if found is not None else None
