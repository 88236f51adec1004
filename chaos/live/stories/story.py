"""The context in which a story runs against a live cluster."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from lograft.chaos.live.clients.member_processes import Crowd
from lograft.chaos.live.cluster.cluster import NotInTime
from lograft.chaos.live.stories.nemesis import LiveNemesis
from lograft.clients.admin.aio_admin import Admin
from lograft.clients.errors import LograftError
from lograft.runtime.clock import LoopClock
from lograft.runtime.rng import Rng

SESSION_MS = 3000  # of a broker: one that is silent for longer stops leading
_RECOVERY_SECONDS = 90
_AGAIN_MS = 300


@dataclass(frozen=True, slots=True)
class StoryContext:
    """The cluster as a story sees it. The story ends at `ends_ms` on the loop's clock. `crowd` holds members of the
    group that join and leave."""

    nemesis: LiveNemesis
    admin: Admin
    topics: tuple[str, ...]
    crowd: Crowd
    rng: Rng
    ends_ms: float

    @property
    def is_over(self) -> bool:
        return self.left_ms <= 0

    @property
    def left_ms(self) -> float:
        return self.ends_ms - LoopClock().monotonic_ms()

    @property
    def nodes(self) -> list[int]:
        return list(self.nemesis.cluster.nodes)

    def others(self, number: int) -> list[int]:
        return [node for node in self.nodes if node != number]

    def part(self, milliseconds: float) -> "StoryContext":
        """Return a context for the first `milliseconds` of the time left, with its own random numbers."""
        return replace(self, rng=self.rng.fork(), ends_ms=min(self.ends_ms, self.ends_ms - self.left_ms + milliseconds))

    async def pass_ms(self, least: float, most: float) -> None:
        """Wait for a random time, limited by the time left."""
        await LoopClock().sleep_ms(max(min(self.rng.uniform(least, most), self.left_ms), 0.0))

    # -- queries

    async def leader(self) -> int:
        """Return the leader of a random partition, or any node if none is known."""
        try:
            topic = await self.admin.describe_topic(self.rng.choice(self.topics))
        except LograftError:
            return self.rng.choice(self.nodes)
        leaders = [partition.leader for partition in topic.partitions if partition.leader is not None]
        return self.rng.choice(leaders or self.nodes)

    async def controller(self) -> int:
        """Return the active controller, or any node if none is known."""
        try:
            found = (await self.admin.describe_quorum()).leader_id
        except LograftError:
            found = None
        return found if found is not None else self.rng.choice(self.nodes)

    # -- waiting

    async def recovered(self) -> None:
        """Wait until all nodes are ready again."""
        await self.nemesis.cluster.wait_ready(_RECOVERY_SECONDS)

    async def verified(self) -> None:
        """Wait until all replicas are in sync and equal when read from disk: damage has been repaired."""
        for topic in self.topics:
            await self._until_sound(topic)

    async def _until_sound(self, topic: str) -> None:
        deadline_ms = LoopClock().monotonic_ms() + _RECOVERY_SECONDS * 1000
        last = "nobody could say"
        while LoopClock().monotonic_ms() < deadline_ms:
            try:
                await self.admin.wait_for_topic(topic)
                found = await self.admin.verify_replicas([topic])
                wrong = [one for one in found if not one.is_well]
                if not wrong:
                    return
                last = "; ".join(f"{one.partition}: {one.problem or f'damaged on {one.damaged}'}" for one in wrong)
            except LograftError as error:
                last = str(error)
            await LoopClock().sleep_ms(_AGAIN_MS)
        raise NotInTime(f"not all replicas of {topic} are sound after {_RECOVERY_SECONDS} s: {last}")

    @asynccontextmanager
    async def attempt(self, name: str, target: object, action: Callable[[], Awaitable[object]]) -> AsyncIterator[bool]:
        """Make an operator's request, recorded like a fault. Yield whether it succeeded."""
        async with self.nemesis.fault(name, target):
            try:
                await action()
                is_done = True
            except LograftError:
                is_done = False
            yield is_done


Story = Callable[[StoryContext], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Scenario:
    """A named story. `tells` says what happens, and `holds` what must hold in addition to `ALWAYS`, both for people.
    `nodes` is the number of nodes needed."""

    name: str
    tells: str
    holds: str
    story: Story
    nodes: int = 3
