"""Stories of machines: power, disks, clocks."""

from lograft.chaos.live.stories.story import StoryContext


async def power_failure(stage: StoryContext) -> None:
    while not stage.is_over:
        await stage.pass_ms(500, 2500)
        async with stage.nemesis.powerless(await stage.leader()):
            await stage.pass_ms(200, 3000)
        await stage.recovered()


async def power_failure_of_all(stage: StoryContext) -> None:
    while not stage.is_over:
        await stage.pass_ms(1000, 4000)
        async with stage.nemesis.powerless(*stage.nodes):
            await stage.pass_ms(0, 1000)
        await stage.recovered()


async def corrupt_minority(stage: StoryContext) -> None:
    while not stage.is_over:
        await stage.pass_ms(500, 2000)
        async with stage.nemesis.damaged(stage.rng.choice(stage.nodes), is_careful=False):
            await stage.recovered()
            await stage.verified()


async def lost_files(stage: StoryContext) -> None:
    """Remove files, mostly of a node that led and, as preferred leader, leads again once it is back in sync."""
    while not stage.is_over:
        await stage.pass_ms(500, 2000)
        async with stage.nemesis.without_files(await stage.leader()):
            await stage.recovered()
            await stage.verified()


async def disk_full(stage: StoryContext) -> None:
    while not stage.is_over:
        await stage.pass_ms(500, 2000)
        async with stage.nemesis.full_disk(await stage.leader()):
            await stage.pass_ms(1500, 5000)
        await stage.recovered()


async def fsync_error(stage: StoryContext) -> None:
    while not stage.is_over:
        await stage.pass_ms(500, 2000)
        async with stage.nemesis.failing_syncs(await stage.leader()):
            await stage.pass_ms(1500, 5000)
        await stage.recovered()


async def slow_disk(stage: StoryContext) -> None:
    while not stage.is_over:
        await stage.pass_ms(200, 1000)
        sync_ms = stage.rng.choice([20.0, 100.0, 500.0, 2000.0])
        async with stage.nemesis.slow_disk(await stage.leader(), sync_ms, stage.rng.choice([0.0, 20.0])):
            await stage.pass_ms(2000, 6000)


async def clock_jump(stage: StoryContext) -> None:
    while not stage.is_over:
        await stage.pass_ms(200, 1000)
        offset_ms = stage.rng.choice([-86_400_000, -5000, 2000, 600_000, 86_400_000])
        rate = stage.rng.choice([0.7, 0.9, 1.0, 1.1, 1.4])
        async with stage.nemesis.wrong_clock(await stage.leader(), offset_ms, rate):
            await stage.pass_ms(1500, 5000)
