"""What the Raft and controller programs share: their arguments, and how they end.

Exit code 0 after SIGTERM, 2 if the store was refused, 3 after a panic.
"""

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from lograft.raft.store.errors import StoreRefused
from lograft.raft.store.lmdb_store import LmdbStore, open_lmdb_store
from lograft.runtime.observability.logging import configure_logging
from lograft.runtime.process.allocator import keep_freed_memory
from lograft.runtime.production.node_runtime import close_production_runtime, production_runtime
from lograft.runtime.world import Runtime

EXIT_REFUSED = 2
EXIT_PANIC = 3


@dataclass(frozen=True)
class Surroundings:
    """`address` is the node's own; `stopping` is set by SIGTERM."""

    runtime: Runtime
    store: LmdbStore
    address: str
    controllers: dict[int, str]
    stopping: asyncio.Event


def run_node(take_part: Callable[[Surroundings], Awaitable[None]]) -> None:
    sys.exit(asyncio.run(_run(take_part)))


def die(error: BaseException) -> None:
    print(f"panic: {error!r}", file=sys.stderr, flush=True)
    os._exit(EXIT_PANIC)


async def _run(take_part: Callable[[Surroundings], Awaitable[None]]) -> int:
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    parser = argparse.ArgumentParser()
    parser.add_argument("--cluster", required=True)
    parser.add_argument("--node", type=int, required=True)
    parser.add_argument("--directory", required=True)
    parser.add_argument("controllers", nargs="+", help="1@host:port ...")
    options = parser.parse_args()
    controllers = {int(node): address for node, _, address in (part.partition("@") for part in options.controllers)}
    configure_logging()
    keep_freed_memory()
    runtime = production_runtime(die)
    try:
        store = await open_lmdb_store(runtime, options.directory, options.cluster, options.node)
        await take_part(Surroundings(runtime, store, controllers[options.node], controllers, stopping))
    except StoreRefused as error:
        print(f"refused: {error}", file=sys.stderr, flush=True)
        return EXIT_REFUSED
    finally:
        await close_production_runtime(runtime)
    return 0
