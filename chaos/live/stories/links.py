"""Stories of links that are cut, slow or lossy."""

from lograft.chaos.live.cluster.links import CLIENTS, Door
from lograft.chaos.live.stories.story import StoryContext


async def cut_leader_from_followers(stage: StoryContext) -> None:
    while not stage.is_over:
        await stage.pass_ms(500, 2000)
        leader = await stage.leader()
        async with stage.nemesis.cut([leader], stage.others(leader), one_way=stage.rng.random() < 0.5):
            await stage.pass_ms(1000, 6000)
        await stage.recovered()


async def cut_leader_from_clients(stage: StoryContext) -> None:
    while not stage.is_over:
        await stage.pass_ms(500, 2000)
        async with stage.nemesis.cut([CLIENTS], [await stage.leader()], one_way=stage.rng.random() < 0.5):
            await stage.pass_ms(1000, 6000)
        await stage.recovered()


async def cut_broker_from_controller(stage: StoryContext) -> None:
    """Cut a broker off from controllers, while brokers and clients still reach each other. Every node is both, so a
    node other than the active controller is chosen."""
    while not stage.is_over:
        await stage.pass_ms(500, 2000)
        controller = await stage.controller()
        broker = await stage.leader()
        if broker == controller:
            broker = stage.rng.choice(stage.others(controller))
        one_way = stage.rng.random() < 0.5
        async with stage.nemesis.cut([broker], stage.others(broker), one_way=one_way, door=Door.CONTROLLER):
            await stage.pass_ms(2000, 7000)
        await stage.recovered()


async def flapping_links(stage: StoryContext) -> None:
    while not stage.is_over:
        number = stage.rng.choice(stage.nodes)
        if stage.rng.random() < 0.5:
            await stage.nemesis.break_connections(number)
            await stage.pass_ms(50, 500)
        else:
            async with stage.nemesis.cut([number], [stage.rng.choice(stage.others(number))]):
                await stage.pass_ms(50, 800)


async def lossy_links(stage: StoryContext) -> None:
    while not stage.is_over:
        await stage.pass_ms(200, 1000)
        async with stage.nemesis.lossy(stage.rng.choice(stage.nodes), stage.rng.choice([0.01, 0.05, 0.2])):
            await stage.pass_ms(2000, 5000)


async def slow_follower(stage: StoryContext) -> None:
    while not stage.is_over:
        await stage.pass_ms(200, 1000)
        number = stage.rng.choice(stage.nodes)
        delay_ms, narrow = stage.rng.choice([(20.0, None), (100.0, None), (400.0, None), (5.0, 30_000), (0.0, 5_000)])
        async with stage.nemesis.slowed(number, delay_ms, narrow):
            await stage.pass_ms(2000, 5000)
