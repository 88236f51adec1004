from support.controller_nodes import controllers
from support.raft_nodes import virtual


@virtual
async def test_try() -> None:
    async with controllers() as cluster:
        for each in (1, 2, 3):
            await cluster.ready_broker(each)
        print(cluster.now_ms)
        active = await cluster.active()
        await active.kill()
        await cluster.active()
        print(cluster.now_ms)
