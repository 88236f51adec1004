"""What a cluster costs when nothing happens, and how long it is away when something does."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise
from statistics import median
from time import perf_counter

from local_cluster import MeasuredCluster
from measure import Aim, Result

from lograft import aio

_TOPICS, _PARTITIONS_EACH = 20, 50
_SETTLE_SECONDS = 5.0
_CHECKPOINTED_SECONDS = 75.0  # what is new is checkpointed, once, within a minute: that is not idleness
_SEND_EVERY_SECONDS = 0.005


async def measure_first_write(cluster: MeasuredCluster, admin: aio.Admin) -> list[Result]:
    """From the very start of the processes; call it first."""
    await admin.create_topic("first", partitions=1, replicas=3)
    async with aio.Producer(cluster.bootstrap) as producer:
        await (await producer.send("first", b"hello"))
    seconds = perf_counter() - cluster.started_at
    return [
        Result(
            "Starting", "lograft dev up to the first acknowledged write", seconds, "s", aim=Aim(3, "3 s"),
            note="three nodes from nothing, a topic created, RF 3, acks=all",
        )
    ]  # fmt: skip


async def measure_idle(cluster: MeasuredCluster, admin: aio.Admin, seconds: float) -> list[Result]:
    """Of a cluster with hardly anything on it, then of one with a thousand partitions."""
    results = [_memory(cluster, "Idle, no topics to speak of", Aim(120, "120 MB"))]
    await asyncio.sleep(_SETTLE_SECONDS)
    results.append(await _processor(cluster, "Idle, no topics to speak of", seconds, None))
    section = f"Idle, {_TOPICS * _PARTITIONS_EACH:,} partitions, RF 3"
    names = [f"idle-{number}" for number in range(_TOPICS)]
    for name in names:
        await admin.create_topic(name, partitions=_PARTITIONS_EACH, replicas=3)
    await _until_in_sync(admin, names)
    await asyncio.sleep(_CHECKPOINTED_SECONDS)
    results.append(_memory(cluster, section, None))
    results.append(await _processor(cluster, section, seconds, Aim(5, "5 % of a core")))
    await admin.delete_topics(names)
    return results


def _memory(cluster: MeasuredCluster, section: str, aim: Aim | None) -> Result:
    most = max(cluster.resident_bytes(number) for number in cluster.numbers)
    return Result(section, "memory of the largest node", most / 1e6, "MB", aim=aim)


async def _processor(cluster: MeasuredCluster, section: str, seconds: float, aim: Aim | None) -> Result:
    before = cluster.processor_seconds()
    await asyncio.sleep(seconds)
    share = (cluster.processor_seconds() - before) / seconds
    return Result(section, "processor, all nodes together", share * 100, "% of one", aim=aim)


async def _until_in_sync(admin: aio.Admin, names: list[str]) -> None:
    async def are_in_sync() -> bool:
        topics = (await admin.describe_cluster(names)).topics
        return all(partition.is_in_sync for topic in topics for partition in topic.partitions)

    await _until(are_in_sync)


async def _until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Nobody tells us: so we ask now and then."""
    while True:
        if await condition():
            return
        await asyncio.sleep(0.05)


async def measure_failover(cluster: MeasuredCluster, admin: aio.Admin, kills: int) -> list[Result]:
    """A producer sends a record every few milliseconds while whoever leads the partition is killed with kill -9. The
    pause is the longest time from one acknowledgement to the next."""
    await admin.create_topic("failover", partitions=1, replicas=3)
    pauses = []
    async with aio.Producer(cluster.bootstrap, linger_ms=0) as producer:
        for _ in range(kills):
            await _until_in_sync(admin, ["failover"])
            leader = (await admin.describe_topic("failover")).partitions[0].leader
            assert leader is not None
            pauses.append(await _pause(cluster, admin, producer, leader))
            await asyncio.to_thread(cluster.restart, leader)
    section = f"From kill -9 of a leader to the next acknowledged write, {kills} times"
    return [
        Result(section, "median", median(pauses), "s", aim=Aim(1.5, "1.5 s")),
        Result(section, "longest", max(pauses), "s", aim=Aim(1.5, "1.5 s")),
    ]


async def _pause(cluster: MeasuredCluster, admin: aio.Admin, producer: aio.Producer, leader: int) -> float:
    acknowledged: list[float] = []

    async def send_on() -> None:
        async with asyncio.TaskGroup() as group:
            while not has_new_leader.is_set():
                group.create_task(note(await producer.send("failover", b"record")))
                await asyncio.sleep(_SEND_EVERY_SECONDS)

    async def note(delivery: aio.Delivery) -> None:
        await delivery
        acknowledged.append(perf_counter())

    async def another_leads() -> bool:
        return (await admin.describe_topic("failover")).partitions[0].leader not in (None, leader)

    has_new_leader = asyncio.Event()
    sending = asyncio.ensure_future(send_on())
    await asyncio.sleep(0.5)
    await asyncio.to_thread(cluster.kill, leader)
    await _until(another_leads)
    has_new_leader.set()
    await sending
    return max(later - earlier for earlier, later in pairwise(acknowledged))
