"""Conditions under which simulated metadata clusters are put to a particular test."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, TypeVar

from lograft.chaos.harness.outcome import Outcome
from lograft.chaos.metadata.broker import SimulatedBroker
from lograft.chaos.metadata.simulation import MetadataCluster, first_cause
from lograft.chaos.metadata.weather import MetadataWeather
from lograft.chaos.world.link import Delays
from lograft.chaos.world.loop import run_virtual
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerEpoch, BrokerId, Partition, TopicId
from lograft.proto.admin_pb2 import CreateTopicsRequest, CreateTopicsResponse, NewTopic
from lograft.proto.methods import CREATE_TOPICS

# Brokers come and go all the time; the one controller is left alone.
RESTLESS_BROKERS = MetadataWeather(
    controllers=1,
    brokers=4,
    duration_ms=8_000,
    fault_every_ms=150,
    faults=(
        "kill",
        "kill_leader",
        "start",
        "start",
        "pause",
        "cut_from_brokers",
        "cut_from_controllers",
        "heal",
        "rot",
    ),
    clients=3,
    think_ms=(5.0, 100.0),
    topics=5,
    append_probability=0.3,
    lag_ms=500,
    os_flush_probability=0.0,
    unclean_probability=0.0,
)  # fmt: skip

WIPED_DISKS = replace(RESTLESS_BROKERS, faults=("kill", "wipe", "wipe", "start", "start"), directories=2)

# Every topic trusts the page cache, and the power fails.
FORGETFUL_DISKS = replace(
    RESTLESS_BROKERS,
    faults=("kill", "power_failure", "power_failure", "start", "start", "slow_broker", "heal"),
    os_flush_probability=1.0,
)

# The office of the active controller changes hands all the time.
RESTLESS_CONTROLLERS = replace(
    RESTLESS_BROKERS,
    controllers=3,
    faults=(
        "kill_active", "kill_active", "start_controller", "start_controller", "pause_controller", "isolate_active",
        "cut_controllers", "transfer", "transfer", "break_streams", "kill", "start", "heal", "heal",
    ),
    snapshot_every=10,
    max_deltas=5,
)  # fmt: skip

# Nothing happens but what a test does.
CALM = MetadataWeather(
    controllers=1, brokers=3, faults=(), clients=1, append_probability=0.5, lag_ms=300, snapshot_every=1_000_000
)

_LATE_MS = 1_000  # well under the silence after which a broker gives its controller up
_SLOW_MS = 400  # each way there

S = TypeVar("S", bound="Story")
T = TypeVar("T")


class Story:
    """A cluster in which nothing goes wrong by itself, and one partition with replicas on `leader`, `other` and
    `third`."""

    def __init__(self, cluster: MetadataCluster) -> None:
        self.cluster = cluster
        self.key = (TopicId(cluster.rng.uuid()), 0)

    async def begin(self, **configs: str) -> None:
        cluster = self.cluster
        await cluster.start()
        await self.until(lambda: self._active() == cluster.broker_ids)
        topic = NewTopic(name="story", topic_id=self.key[0].bytes, partitions=1, replication_factor=3)
        topic.configs.update({key.replace("_", "."): value for key, value in configs.items()})
        request = CreateTopicsRequest(topics=[topic])
        answer = await cluster.clients[0].ask(CREATE_TOPICS, request, CreateTopicsResponse)
        assert answer.outcome is Outcome.OK
        self.leader, self.other, self.third = (cluster.brokers[number - 1] for number in self.partition.replica_ids)
        await cluster.pass_ms(500)

    @property
    def image(self) -> ClusterImage:
        """The latest that anybody has."""
        return self.cluster.invariants.image

    @property
    def partition(self) -> Partition:
        partition = self.image.partition(*self.key)
        assert partition is not None
        return partition

    @property
    def now_ms(self) -> int:
        return self.cluster.now_us // 1000

    def _active(self) -> list[BrokerId]:
        return sorted(broker.broker_id for broker in self.image.brokers.values() if broker.is_live)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not condition():
                await self.cluster.pass_ms(5)

    async def lose_session(self, broker: SimulatedBroker) -> None:
        """The controller takes it for dead. So it stays until the way to the controller is healed."""
        controller = self.cluster.quorum[0]
        self.cluster.network.cut(broker.host, controller.host)
        self.cluster.network.break_connections(broker.host, controller.host)
        await self.until(lambda: not self.image.brokers[broker.broker_id].is_live)


class LateRequest(Story):
    """The partition needs but one replica to take writes. Its leader has asked to have `third` in the ISR, together
    with itself and `other`; the request will be at the controller in a second."""

    async def begin(self, **configs: str) -> None:
        await super().begin(min_insync_replicas="1", flush_mode="os", **configs)
        self.third.kill()
        await self.until(lambda: self.third.broker_id not in self.partition.isr)
        self.third.start()
        await self.until(lambda: self.image.brokers[self.third.broker_id].is_live)
        late = Delays(_LATE_MS, _LATE_MS)
        self.cluster.network.set_delays(self.leader.host, self.cluster.quorum[0].host, late)
        await self.until(self._is_asked)

    def _is_asked(self) -> bool:
        assert self.leader.stub is not None
        return self.third.broker_id in self.leader.stub.proposed(self.key)

    async def arrive(self) -> None:
        """Return when the request has come, and something after it."""
        await self.cluster.pass_ms(2 * _LATE_MS)


class LateRegistration(Story):
    """A process of `third` was killed when its registration had left it, and another one started. It is registered;
    what the first one sent is still on its way to the controller."""

    async def begin(self, **configs: str) -> None:
        await super().begin(**configs)
        network, way = self.cluster.network, (self.third.host, self.cluster.quorum[0].host)
        self.third.kill()
        before = self.epoch
        usual = network.link(*way).delays
        network.set_delays(*way, Delays(_SLOW_MS, _SLOW_MS, slow_probability=0))
        self.third.start()
        await self.cluster.pass_ms(5 * _SLOW_MS // 2)  # it has connected, asked what it has to, and registers
        self.third.kill()
        network.set_delays(*way, usual)
        self.third.start()
        await self.until(lambda: self.epoch > before)

    @property
    def epoch(self) -> BrokerEpoch:
        """Of the latest registration of `third`."""
        return self.image.brokers[self.third.broker_id].epoch

    async def arrive(self) -> None:
        """Return when the request of the first process has come."""
        await self.cluster.pass_ms(2 * _SLOW_MS)


def tell(
    story_type: type[S], plot: Callable[[S], Coroutine[Any, Any, T]], weather: MetadataWeather = CALM, seed: int = 1
) -> T:
    """What `plot` returns, in a cluster of its own. Raises what a simulation does."""

    async def main() -> T:
        async with asyncio.TaskGroup() as group:
            cluster = MetadataCluster(seed, group, weather)
            story = story_type(cluster)
            await story.begin()
            result = await plot(story)
            cluster.stop()
        return result

    try:
        return run_virtual(main, max_virtual_seconds=100)
    except BaseExceptionGroup as group:
        raise first_cause(group) from group
