"""Stories of operators who change the cluster while it is in use and under fault injection."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from lograft.chaos.live.cluster.cluster import NotInTime
from lograft.chaos.live.stories.story import StoryContext
from lograft.clients.errors import LograftError
from lograft.runtime.clock import LoopClock

_WHILE_MS = 10_000
_PATIENCE_MS = 90_000


async def reassign_under_fire(stage: StoryContext) -> None:
    """Move replicas from broker to broker while some of those are killed."""
    while not stage.is_over:
        await stage.pass_ms(500, 1500)
        async with reassigned(stage):
            await stage.pass_ms(100, 1500)
            if stage.rng.random() < 0.7:
                async with stage.nemesis.killed(stage.rng.choice(stage.nodes)):
                    await stage.pass_ms(500, 2500)
        await stage.recovered()


@asynccontextmanager
async def reassigned(stage: StoryContext) -> AsyncIterator[None]:
    """Reassign a random partition. After the block, wait until its replicas have moved, or sometimes cancel."""
    topic = stage.rng.choice(stage.topics)
    try:
        described = await stage.admin.describe_topic(topic)
    except LograftError:
        yield
        return
    partition = stage.rng.choice(described.partitions)
    target = stage.rng.sample(stage.nodes, 3)
    name = (topic, partition.number)

    async def reassign() -> None:
        for error in (await stage.admin.reassign({name: target})).values():
            if error is not None:
                raise error

    async with stage.attempt("reassign", f"{topic}-{partition.number} to {target}", reassign):
        yield
        if stage.rng.random() < 0.3:
            try:
                await stage.admin.reassign({name: None})
            except LograftError:
                return
        else:
            await _until_moved(stage, topic)


async def _until_moved(stage: StoryContext, topic: str) -> None:
    """Wait, but not for long: the reassignment may need a node that is down."""
    ends_ms = LoopClock().monotonic_ms() + _WHILE_MS
    while LoopClock().monotonic_ms() < ends_ms:
        try:
            if not await stage.admin.list_reassignments([topic]):
                return
        except LograftError:
            pass
        await LoopClock().sleep_ms(100)


async def change_quorum(stage: StoryContext) -> None:
    """Remove voters and add them again, replace voters that lost their disks, and transfer leadership."""
    while not stage.is_over:
        await stage.pass_ms(500, 2000)
        action = stage.rng.choice([hand_over, _remove_and_add, _replace])
        await action(stage)
        await stage.recovered()


async def hand_over(stage: StoryContext) -> None:
    target = stage.rng.choice(stage.nodes)
    async with stage.attempt("hand over", f"to node {target}", lambda: stage.admin.transfer_leadership(target)):
        await stage.pass_ms(200, 1500)


async def _remove_and_add(stage: StoryContext) -> None:
    number = stage.rng.choice(stage.nodes)
    async with stage.attempt("remove voter", f"node {number}", lambda: stage.admin.remove_voter(number)):
        await stage.pass_ms(500, 2000)
        if stage.rng.random() < 0.5:
            async with stage.nemesis.killed(stage.rng.choice(stage.others(number))):
                await stage.pass_ms(500, 2000)
            await stage.recovered()
    await vote_again(stage)


async def _replace(stage: StoryContext) -> None:
    number = stage.rng.choice(stage.others(await stage.controller()))
    async with stage.nemesis.without_store(number):
        await _repeat(lambda: stage.admin.replace_voter(number))


async def restored_backup(stage: StoryContext) -> None:
    """Restore an old copy of all data of a node. It catches up, but as a voter it is refused until it is replaced."""
    while not stage.is_over:
        number = stage.rng.choice(stage.nodes)
        await stage.nemesis.copied(number, is_orderly=stage.rng.random() < 0.5)
        await stage.recovered()
        await stage.pass_ms(500, 4000)
        async with stage.nemesis.put_back(number):
            if stage.rng.random() < 0.7:  # a chance for the node to be elected, or to vote
                async with stage.nemesis.killed(stage.rng.choice(stage.others(number))):
                    await stage.pass_ms(300, 3000)
            await stage.pass_ms(0, 2000)
        async with stage.nemesis.without_store(number):
            await _repeat(lambda number=number: stage.admin.replace_voter(number))  # type: ignore[misc]
        await stage.recovered()


async def vote_again(stage: StoryContext) -> None:
    """Make all nodes voters, as an operator does after some were removed."""

    async def add_missing() -> None:
        voters = [member.node_id for member in (await stage.admin.describe_quorum()).members if member.is_voter]
        for number in stage.nodes:
            if number not in voters:
                await stage.admin.add_voter(number)

    await _repeat(add_missing)


async def _repeat(action: Callable[[], Awaitable[object]]) -> None:
    """Repeat an action until it succeeds, as an operator does who knows that it is safe to repeat."""
    ends_ms = LoopClock().monotonic_ms() + _PATIENCE_MS
    while True:
        try:
            await action()
            return
        except LograftError as error:
            if LoopClock().monotonic_ms() >= ends_ms:
                raise NotInTime(f"not in {_PATIENCE_MS // 1000} s, though nothing is wrong: {error}") from None
        await LoopClock().sleep_ms(200)
