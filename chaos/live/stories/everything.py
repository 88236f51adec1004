"""The story of everything at once: in each round several faults at a time, of all kinds, on all nodes."""

import asyncio
from collections.abc import Awaitable, Callable

from lograft.chaos.live.cluster.links import CLIENTS, Door
from lograft.chaos.live.stories.operators import hand_over, reassigned
from lograft.chaos.live.stories.story import SESSION_MS, StoryContext

Act = Callable[[StoryContext], Awaitable[None]]

_ROUND_MS = 9000
_MOST_AT_ONCE = 3
_MOST_MEMBERS = 3


async def _kill(stage: StoryContext) -> None:
    async with stage.nemesis.killed(await stage.leader()):
        await stage.pass_ms(300, 3000)


async def _kill_controller(stage: StoryContext) -> None:
    async with stage.nemesis.killed(await stage.controller()):
        await stage.pass_ms(300, 3000)


async def _power_failure(stage: StoryContext) -> None:
    """Cut the power of one machine, or of several at one moment."""
    numbers = stage.rng.sample(stage.nodes, stage.rng.choice([1, 1, 2, len(stage.nodes)]))
    async with stage.nemesis.powerless(*numbers):
        await stage.pass_ms(100, 2500)


async def _pause(stage: StoryContext) -> None:
    async with stage.nemesis.paused(await stage.leader()):
        await stage.pass_ms(200, SESSION_MS * 2)


async def _restart(stage: StoryContext) -> None:
    async with stage.nemesis.stopped(stage.rng.choice(stage.nodes)):
        pass


async def _cut(stage: StoryContext) -> None:
    number = await stage.leader()
    others = stage.rng.choice([stage.others(number), [CLIENTS], [stage.rng.choice(stage.others(number))]])
    door = Door.CONTROLLER if stage.rng.random() < 0.3 else None
    async with stage.nemesis.cut([number], others, one_way=stage.rng.random() < 0.5, door=door):
        await stage.pass_ms(300, 5000)


async def _flap(stage: StoryContext) -> None:
    for _ in range(stage.rng.randint(1, 6)):
        await stage.nemesis.break_connections(stage.rng.choice(stage.nodes))
        await stage.pass_ms(50, 500)


async def _slow(stage: StoryContext) -> None:
    number, narrow = stage.rng.choice(stage.nodes), stage.rng.choice([None, None, 30_000])
    async with stage.nemesis.slowed(number, stage.rng.choice([5.0, 50.0, 300.0]), narrow):
        await stage.pass_ms(500, 4000)


async def _lose(stage: StoryContext) -> None:
    async with stage.nemesis.lossy(stage.rng.choice(stage.nodes), stage.rng.choice([0.02, 0.1])):
        await stage.pass_ms(500, 4000)


async def _full_disk(stage: StoryContext) -> None:
    async with stage.nemesis.full_disk(stage.rng.choice(stage.nodes)):
        await stage.pass_ms(500, 4000)


async def _failing_syncs(stage: StoryContext) -> None:
    async with stage.nemesis.failing_syncs(stage.rng.choice(stage.nodes)):
        await stage.pass_ms(500, 4000)


async def _slow_disk(stage: StoryContext) -> None:
    async with stage.nemesis.slow_disk(stage.rng.choice(stage.nodes), stage.rng.choice([20.0, 200.0, 1000.0])):
        await stage.pass_ms(500, 5000)


async def _wrong_clock(stage: StoryContext) -> None:
    offset_ms, rate = stage.rng.choice([-3_600_000, -2000, 60_000, 86_400_000]), stage.rng.choice([0.8, 1.0, 1.25])
    async with stage.nemesis.wrong_clock(stage.rng.choice(stage.nodes), offset_ms, rate):
        await stage.pass_ms(500, 5000)


async def _damage(stage: StoryContext) -> None:
    """Damage a file, carefully, because nodes with intact copies may be down. Run at most once per round."""
    async with stage.nemesis.damaged(stage.rng.choice(stage.nodes), is_careful=True):
        await stage.pass_ms(200, 1000)


async def _reassign(stage: StoryContext) -> None:
    async with reassigned(stage):
        await stage.pass_ms(100, 2000)


async def _members(stage: StoryContext) -> None:
    """Let a member join, and another one leave or be killed."""
    crowd = stage.crowd
    if len(crowd.members) < _MOST_MEMBERS:
        async with stage.nemesis.fault("member comes", crowd.come()):
            await stage.pass_ms(500, 2500)
    if not (members := crowd.members):
        return
    name = stage.rng.choice(members)
    end, how = stage.rng.choice([(crowd.leave, "leaves"), (crowd.kill, "is killed")])
    async with stage.nemesis.fault(f"member {how}", name):
        end(name)
        await stage.pass_ms(200, 1000)


_ACTS: tuple[Act, ...] = (
    _kill, _kill_controller, _power_failure, _pause, _restart, _cut, _flap, _slow, _lose, _full_disk, _failing_syncs,
    _slow_disk, _wrong_clock, _reassign, _members, hand_over,
)  # fmt: skip


async def everything(stage: StoryContext) -> None:
    """Run rounds of faults. Damage is repaired before the next round, so that a majority is always intact."""
    while not stage.is_over:
        is_damaging = stage.rng.random() < 0.3
        one_round = stage.part(_ROUND_MS)
        async with asyncio.TaskGroup() as group:
            if is_damaging:
                group.create_task(_damage(stage.part(_ROUND_MS)))
            for _ in range(stage.rng.randint(2, _MOST_AT_ONCE) - is_damaging):
                group.create_task(_strand(stage.part(_ROUND_MS)))
        await one_round.recovered()
        if is_damaging:
            await one_round.verified()
        await stage.pass_ms(300, 1500)


async def _strand(stage: StoryContext) -> None:
    """Inject one fault after another."""
    while not stage.is_over:
        await stage.rng.choice(_ACTS)(stage)
        await stage.pass_ms(100, 1500)
