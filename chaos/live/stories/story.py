"""What a story that a live cluster is put through has to do with."""

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

SESSION_MS = 3000  # of a broker: whoever is silent for longer leads nothing any more
_RECOVERY_SECONDS = 90
_AGAIN_MS = 300


@dataclass(frozen=True, slots=True)
class StoryContext:
    """`ends_ms`: when it is to be over, by the loop's clock. `crowd`: members of the group that come and go."""

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
        """A beginning of what is left, with dice of its own."""
        return replace(self, rng=self.rng.fork(), ends_ms=min(self.ends_ms, self.ends_ms - self.left_ms + milliseconds))

    async def pass_ms(self, least: float, most: float) -> None:
        """Some time, but not much longer than there is."""
        await LoopClock().sleep_ms(max(min(self.rng.uniform(least, most), self.left_ms), 0.0))

    # -- looking

    async def leader(self) -> int:
        """Of some partition; if nobody can tell, any node."""
        try:
            topic = await self.admin.describe_topic(self.rng.choice(self.topics))
        except LograftError:
            return self.rng.choice(self.nodes)
        leaders = [partition.leader for partition in topic.partitions if partition.leader is not None]
        return self.rng.choice(leaders or self.nodes)

    async def controller(self) -> int:
        """The active one; if nobody can tell, any node."""
        try:
            found = (await self.admin.describe_quorum()).leader_id
        except LograftError:
            found = None
        return found if found is not None else self.rng.choice(self.nodes)

    # -- waiting

    async def recovered(self) -> None:
        """All nodes are ready again."""
        await self.nemesis.cluster.wait_ready(_RECOVERY_SECONDS)

    async def verified(self) -> None:
        """All replicas are in sync, were read from their disks, and are the same: what was damaged is made anew."""
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
        """Something that an operator asks for, noted like a fault; whether it was granted."""
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
    """`tells`: what is done; `holds`: what must hold beside what must always, both for people. `nodes`: how many it
    takes."""

    name: str
    tells: str
    holds: str
    story: Story
    nodes: int = 3
