"""Stories of simulated clusters: this happens, then that, at a certain moment. Clients are at work all the while."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

from lograft.broker.replica.leader_role import LeaderRole
from lograft.broker.replica.replica import Replica
from lograft.broker.replication.leader_core import LeaderCore
from lograft.chaos.cluster.checks.continuous import members_of
from lograft.chaos.cluster.checks.history import SentRecord
from lograft.chaos.cluster.clients.base import Wanted
from lograft.chaos.cluster.clients.senders import SendRecorder
from lograft.chaos.cluster.simulation import SimulatedCluster
from lograft.chaos.cluster.world.node import SimulatedHost
from lograft.chaos.cluster.world.weather import ClusterWeather
from lograft.clients.producer.aio_producer import Producer
from lograft.metadata.image.partition import BrokerId, Partition

CONTROLLER = "n101"

# Three brokers, a controller of its own, one partition on all three: what is told next happens to it.
STAGE = ClusterWeather(
    controllers=1,
    brokers=3,
    is_combined=False,
    topics=1,
    partitions=1,
    producers=1,
    consumers=1,
    askers=1,
    send_every_ms=10.0,
    records_at_once=1,
    delivery_timeout_ms=15_000,
    operators=0,
    lag_ms=10_000,
    min_isr=2,
    segment_bytes=1 << 30,
)


class Scene:
    """The one partition, and those who have it."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._writers = 0

    # -- who

    def host(self, number: int | None) -> SimulatedHost:
        return next(host for host in self._cluster.hosts if host.number == number)

    @property
    def partition(self) -> Partition:
        """As the metadata have it."""
        [topic] = self._cluster.image.topics.values()
        return topic.partitions[0]

    @property
    def leader(self) -> SimulatedHost:
        return self.host(self.partition.leader)

    @property
    def followers(self) -> list[SimulatedHost]:
        return [self.host(one) for one in self.partition.replica_ids if one != self.partition.leader]

    def replica(self, host: SimulatedHost) -> Replica | None:
        if host.node is None or host.node.broker is None:
            return None
        return next(iter(host.node.broker.replicas._logs.replicas.values()), None)

    def end_on(self, host: SimulatedHost) -> int:
        replica = self.replica(host)
        return replica.log.end_offset if replica is not None else 0

    def stable_end_on(self, host: SimulatedHost) -> int:
        """Where what a killed process leaves behind ends."""
        replica = self.replica(host)
        return replica.log.stable_end if replica is not None else 0

    def core(self, host: SimulatedHost) -> LeaderCore | None:
        """That of the leader, if it is one."""
        replica = self.replica(host)
        return replica.role.core if replica is not None and isinstance(replica.role, LeaderRole) else None

    def is_in_sync(self, host: SimulatedHost) -> bool:
        return BrokerId(host.number) in self.partition.isr

    def may_lead(self, host: SimulatedHost) -> bool:
        return any(member == host.number for member, _ in members_of(self.partition))

    # -- time

    async def pass_ms(self, duration_ms: float) -> None:
        await self._cluster.pass_ms(duration_ms)

    async def until(self, condition: Callable[[], bool], at_most_ms: int = 20_000) -> None:
        """Look every millisecond."""
        for _ in range(at_most_ms):
            if condition():
                return
            await self.pass_ms(1)
        raise AssertionError(f"did not come about within {at_most_ms} ms")

    async def until_whole(self) -> None:
        await self.until(lambda: len(self.partition.isr) == len(self.partition.replicas))

    async def until_more(self, host: SimulatedHost, records: int) -> None:
        """Until so many more are stored there."""
        end = self.end_on(host) + records
        await self.until(lambda: self.end_on(host) >= end)

    # -- what happens

    async def write(self, *record_keys: bytes) -> None:
        """A record of each, acknowledged; in its turn among what clients write."""
        await self._send(record_keys, is_deletion=False)

    async def delete(self, *record_keys: bytes) -> None:
        await self._send(record_keys, is_deletion=True)

    async def _send(self, record_keys: Sequence[bytes], *, is_deletion: bool) -> None:
        cluster = self._cluster
        [topic] = cluster.image.topics.values()
        self._writers += 1
        recorder = SendRecorder(f"story{self._writers}", cluster)
        async with Producer(cluster.addresses, runtime=cluster.client_runtime("story")) as producer:
            for record_key in record_keys:
                send = await recorder.send(producer, topic.name, 0, Wanted(record_key, is_deletion, padding_bytes=0))
                assert send is not None
            await producer.flush()
        recorder.close()

    @asynccontextmanager
    async def writing(self, client: str) -> AsyncIterator[Callable[[bytes], Awaitable[SentRecord]]]:
        """Give a function that sends a record of a key from a host of that name, and does not wait for its answer. The
        producer waits for all answers in the end."""
        cluster = self._cluster
        [topic] = cluster.image.topics.values()
        recorder = SendRecorder(client, cluster)

        async with Producer(cluster.addresses, runtime=cluster.client_runtime(client)) as producer:

            async def send(record_key: bytes) -> SentRecord:
                wanted = Wanted(record_key, is_deletion=False, padding_bytes=0)
                sent = await recorder.send(producer, topic.name, 0, wanted)
                assert sent is not None
                return sent

            yield send
            await producer.flush()
        recorder.close()

    def kill(self, host: SimulatedHost) -> None:
        self._cluster.note("kill", host.process)
        host.kill()

    def lose_power(self, host: SimulatedHost) -> None:
        self._cluster.note("power", host.process)
        host.lose_power()

    def start(self, host: SimulatedHost) -> None:
        host.start()

    def cut(self, source: str, target: str) -> None:
        """One way."""
        self._cluster.cut(source, target)

    def heal(self) -> None:
        self._cluster.heal_network()

    def slow(self, source: SimulatedHost, target: SimulatedHost, slowest_ms: float) -> None:
        self._cluster.slow(source.host, target.host, slowest_ms)
