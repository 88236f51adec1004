"""One controller as a process of its own: Raft on LMDB, the metadata, and its services over gRPC.

SIGTERM is an orderly stop.
"""

import argparse
import asyncio
import os
import signal
import sys

from lograft.metadata.controller_node import ControllerNode
from lograft.raft.store.lmdb_store import open_lmdb_store
from lograft.runtime.observability.logging import configure_logging
from lograft.runtime.process.allocator import keep_freed_memory
from lograft.runtime.production.node_runtime import close_production_runtime, production_runtime
from lograft.runtime.world import Runtime

EXIT_PANIC = 3


def asked_to_stop() -> asyncio.Event:
    asked = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asked.set)
    return asked


def die(error: BaseException) -> None:
    print(f"panic: {error!r}", file=sys.stderr, flush=True)
    os._exit(EXIT_PANIC)


async def take_part(runtime: Runtime, options: argparse.Namespace) -> None:
    stopping = asked_to_stop()
    controllers = {int(node): address for node, _, address in (part.partition("@") for part in options.controllers)}
    store = await open_lmdb_store(runtime, options.directory, options.cluster, options.node)
    node = ControllerNode(runtime, store, await store.load(), controllers)
    server = await runtime.network.serve(controllers[options.node], node.handlers(), die)
    async with asyncio.TaskGroup() as group:
        group.create_task(node.run())
        await stopping.wait()
        await node.close()
    await server.stop()


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cluster", required=True)
    parser.add_argument("--node", type=int, required=True)
    parser.add_argument("--directory", required=True)
    parser.add_argument("controllers", nargs="+", help="1@host:port ...")
    options = parser.parse_args()
    configure_logging()
    keep_freed_memory()
    runtime = production_runtime(die)
    try:
        await take_part(runtime, options)
    finally:
        await close_production_runtime(runtime)
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
