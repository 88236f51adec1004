"""One controller as a process of its own: Raft on LMDB, the metadata, and its services over gRPC."""

import asyncio

from support.node_program import Surroundings, die, run_node

from lograft.metadata.controller_node import ControllerNode


async def take_part(here: Surroundings) -> None:
    node = ControllerNode(here.runtime, here.store, await here.store.load(), here.controllers)
    server = await here.runtime.network.serve(here.address, node.handlers(), die)
    async with asyncio.TaskGroup() as group:
        group.create_task(node.run())
        await here.stopping.wait()
        await node.close()
    await server.stop()


if __name__ == "__main__":
    run_node(take_part)
