"""Base of all clients of a simulated cluster. They record their actions in the history."""

import asyncio
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from lograft.chaos.cluster.checks.groups import GroupHistory
from lograft.chaos.cluster.checks.history import ClusterHistory, PartitionKey
from lograft.chaos.cluster.world.weather import ClusterWeather
from lograft.chaos.harness.schedule import Detail
from lograft.metadata.image.cluster_image import ClusterImage, Topic
from lograft.runtime.rng import Rng
from lograft.runtime.world import Runtime

_LIFE_SECONDS = 6.0


class ClientEnvironment(Protocol):
    """The world around a client."""

    weather: ClusterWeather
    history: ClusterHistory
    group: GroupHistory

    @property
    def now_us(self) -> int: ...

    @property
    def image(self) -> ClusterImage:
        """The latest committed image."""
        ...

    @property
    def addresses(self) -> list[str]:
        """The addresses of all brokers."""
        ...

    @property
    def missing_voters(self) -> list[int] | None:
        """Controllers that do not vote, or not with their present disk; None while that is unknown."""
        ...

    def lost_stores(self, number: int) -> tuple[UUID, ...]:
        """The metadata disks that this controller has lost so far."""
        ...

    def note(self, event: str, *details: Detail) -> None: ...

    def client_runtime(self, host: str) -> Runtime: ...

    def check_committed(self, key: PartitionKey, leader_epoch: int, end: int, what: object) -> None:
        """Check that a leader of this epoch could tell a client that everything below `end` is committed."""
        ...

    def note_replicas(self) -> None:
        """Record the present content of all replicas."""
        ...


def topics_of(image: ClusterImage) -> list[Topic]:
    """Return all topics but internal ones."""
    return [topic for topic in image.topics.values() if not topic.is_internal]


@dataclass(frozen=True, slots=True)
class Wanted:
    """A record to send. There are few keys, so that each is written repeatedly."""

    record_key: bytes
    is_deletion: bool
    padding_bytes: int


class Client:
    """A client that runs until `stop`. Names are unique."""

    def __init__(self, name: str, stage: ClientEnvironment, rng: Rng) -> None:
        self.name = name
        self.stage = stage
        self.rng = rng
        self.is_over = False

    def stop(self) -> None:
        self.is_over = True

    async def run(self) -> None:
        """Run one life after another, each with a new client."""
        life = 0
        while not self.is_over:
            life += 1
            await self._live(f"{self.name}.{life}")

    async def _live(self, name: str) -> None:
        raise NotImplementedError

    async def _pause(self, low_ms: float, high_ms: float) -> None:
        await asyncio.sleep(self.rng.uniform(low_ms, high_ms) / 1000)

    def _life_seconds(self) -> float:
        return self.rng.choice([0.5, 1, 3]) * _LIFE_SECONDS

    def _any_record(self, padding_bytes: int = 0) -> Wanted:
        weather, rng = self.stage.weather, self.rng
        record_key = b"k%d" % rng.randrange(weather.record_keys)
        return Wanted(record_key, rng.random() < weather.deletion_probability, padding_bytes)

    def _any_key(self) -> PartitionKey | None:
        topics = topics_of(self.stage.image)
        if not topics:
            return None
        topic = self.rng.choice(topics)
        return topic.topic_id, self.rng.randrange(len(topic.partitions))
