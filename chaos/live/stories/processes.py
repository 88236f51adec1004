"""Stories of processes that die, stall and restart."""

from lograft.chaos.live.stories.story import SESSION_MS, StoryContext


async def control(stage: StoryContext) -> None:
    while not stage.is_over:
        await stage.pass_ms(100, 200)


async def kill_leader(stage: StoryContext) -> None:
    while not stage.is_over:
        await stage.pass_ms(500, 2000)
        async with stage.nemesis.killed(await stage.leader()):
            await stage.pass_ms(500, 3000)
        await stage.recovered()


async def kill_controller(stage: StoryContext) -> None:
    while not stage.is_over:
        await stage.pass_ms(500, 2000)
        async with stage.nemesis.killed(await stage.controller()):
            await stage.pass_ms(500, 3000)
        await stage.recovered()


async def kill_all(stage: StoryContext) -> None:
    while not stage.is_over:
        await stage.pass_ms(1000, 3000)
        async with stage.nemesis.killed(*stage.nodes):
            await stage.pass_ms(0, 1000)
        await stage.recovered()


async def last_replica_standing(stage: StoryContext) -> None:
    while not stage.is_over:
        await stage.pass_ms(500, 2000)
        one, other, *_ = stage.rng.sample(stage.nodes, 3)
        async with stage.nemesis.killed(one):
            await stage.pass_ms(500, 3000)
            async with stage.nemesis.killed(other):
                await stage.pass_ms(500, 3000)
        await stage.recovered()


async def zombie_leader(stage: StoryContext) -> None:
    while not stage.is_over:
        await stage.pass_ms(500, 2000)
        async with stage.nemesis.paused(await stage.leader()):
            await stage.pass_ms(SESSION_MS * 1.2, SESSION_MS * 2.5)
        await stage.recovered()


async def rolling_restart(stage: StoryContext) -> None:
    while not stage.is_over:
        for number in stage.nodes:
            async with stage.nemesis.stopped(number):
                pass
            await stage.recovered()


async def rebalance_storm(stage: StoryContext) -> None:
    """Members join, leave and are killed. Sometimes a leader is killed, which may be their coordinator."""
    crowd = stage.crowd
    while not stage.is_over:
        members = crowd.members
        action = stage.rng.random()
        if len(members) < 2 or (action < 0.4 and len(members) < 5):
            async with stage.nemesis.fault("member comes", crowd.come()):
                await stage.pass_ms(200, 2000)
        elif action < 0.65:
            name = stage.rng.choice(members)
            async with stage.nemesis.fault("member leaves", name):
                crowd.leave(name)
                await stage.pass_ms(200, 2000)
        elif action < 0.9:
            name = stage.rng.choice(members)
            async with stage.nemesis.fault("member is killed", name):
                crowd.kill(name)
                await stage.pass_ms(200, 2000)
        else:
            async with stage.nemesis.killed(await stage.leader()):
                await stage.pass_ms(500, 2000)
            await stage.recovered()
