"""The outside world of a real node."""

import asyncio
import os
import sys

from lograft.runtime.clock import Clock, LoopClock
from lograft.runtime.disk.os_files import OsFiles
from lograft.runtime.files import Files
from lograft.runtime.network import PanicHandler
from lograft.runtime.process.host import boot_id
from lograft.runtime.production.grpc_engine import wait_without_pool
from lograft.runtime.production.threads import ThreadBlocking, ThreadWorkers
from lograft.runtime.rng import system_rng
from lograft.runtime.world import Runtime

_BLOCKING_THREADS = 8
_PING_INTERVAL_MS = 10_000  # all that nodes say to each other has its own signs of life, which come much sooner

# A thread back from the disk asks for the interpreter lock only once it waited a whole switch interval in which that
# was never let go. A busy loop lets go at every poll, and takes the lock again before the waiter is awake; so with the
# default interval, 5 ms, a finished fsync went unnoticed for up to seconds. Measured, polls 0.1 to 1 ms apart: p99 5 to
# 250 ms by default, 5 to 30 ms with 50 us. Much less is worse again: at 5 us, with exact timers, they only took turns.
_SWITCH_INTERVAL_S = 0.00005


FAULTS_VARIABLE = "LOGRAFT_FAULTS"
"""For tests of whole clusters, and nothing else: the directory that says what is wrong with the machine."""


def production_runtime(on_panic: PanicHandler) -> Runtime:
    """A node's runtime on this machine. Call on the node's loop; `on_panic` is told there of broken invariants."""
    wait_without_pool()
    # Only a node needs gRPC at once; what merely reads files should not wait for its import.
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
    """The machine's, unless a test has it lose its memory."""
    faults = os.environ.get(FAULTS_VARIABLE)
    if not faults:
        return boot_id()
    from lograft.runtime.faults.settings import read_settings

    return read_settings(faults).boot_id or boot_id()


async def close_production_runtime(runtime: Runtime) -> None:
    """End all threads, once what was asked of them is done. Their owners close servers and connections before that."""
    # Workers and blocking functions use the files, so those come last.
    if isinstance(runtime.make_worker, ThreadWorkers):
        await runtime.make_worker.close()
    await runtime.blocking.close()
    if isinstance(runtime.files, OsFiles):
        runtime.files.close()
