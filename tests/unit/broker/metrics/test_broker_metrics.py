"""What a broker tells Prometheus: of much, a part at a time; of groups, what is true."""

import asyncio
import re
from collections.abc import Awaitable, Sequence
from types import SimpleNamespace
from typing import Any, cast

from support.log_services import Node
from support.metadata_images import partition, topic_id
from support.raft_nodes import virtual

from lograft.broker.fetch.fetch_service import FetchService
from lograft.broker.metrics.broker_metrics import BrokerMetrics
from lograft.broker.produce.produce_service import ProduceService
from lograft.broker.replica.context import ReplicaCounts
from lograft.metadata.image.partition import PartitionKey
from lograft.runtime.observability.prometheus_text import Exposition

ORDERS = topic_id(1)


class Replicas:
    """Partitions of `orders` from 0 on, by their watermarks: broker 1 has all, and is in sync with those it says."""

    def __init__(self, node: Node, watermarks: Sequence[int], in_sync: Sequence[int] = ()) -> None:
        self.traffic = node.replicas.traffic
        self.counts = ReplicaCounts()
        self._replicas = {
            (ORDERS, number): SimpleNamespace(
                identity=SimpleNamespace(key=(ORDERS, number), broker_id=1),
                partition=partition(2, 1, isr=[2, 1] if number in in_sync else [2]),
                log=SimpleNamespace(segments=SimpleNamespace(size_bytes=10)),
                role=None,
                high_watermark=watermark,
            )
            for number, watermark in enumerate(watermarks)
        }

    def hosted(self) -> list[SimpleNamespace]:
        return list(self._replicas.values())

    def find(self, key: PartitionKey) -> SimpleNamespace | None:
        return self._replicas.get(key)


def group(name: str, offsets: dict[PartitionKey, int]) -> SimpleNamespace:
    committed = {key: SimpleNamespace(offset=offset) for key, offset in offsets.items()}
    return SimpleNamespace(name=name, members={}, offsets=committed)


def metrics(
    replicas: Any,
    node: Node,
    groups: list[SimpleNamespace],
    elsewhere: dict[PartitionKey, int],
    most_groups: int = 100,
) -> BrokerMetrics:
    services = SimpleNamespace(
        produce=ProduceService(node.runtime, node.logs), fetch=FetchService(node.runtime, node.logs)
    )
    coordinated = {0: SimpleNamespace(is_loaded=True, groups=groups)}
    others = SimpleNamespace(end_of=elsewhere.get)
    return BrokerMetrics(
        lambda: node.image, replicas, [], cast(Any, coordinated), cast(Any, others), cast(Any, services), most_groups
    )


async def turns_during(work: Awaitable[None]) -> int:
    """How often others had their turn."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.ensure_future(count())
    await work
    counting.cancel()
    return turns


@virtual
async def test_others_have_their_turn_while_many_partitions_are_looked_at() -> None:
    node, page = Node(), Exposition()
    few, many = (Replicas(node, range(number)) for number in (10, 5000))
    turns = await turns_during(metrics(few, node, [], {}).add_to(Exposition()))
    assert await turns_during(metrics(many, node, [], {}).add_to(page)) == turns + 10
    assert "lograft_partitions 5000" in page.text().splitlines()
    assert 'lograft_log_size_bytes{topic="(other)"} 50000' in page.text().splitlines()


@virtual
async def test_others_have_their_turn_while_many_offsets_are_looked_at() -> None:
    node, page = Node(), Exposition()
    replicas = Replicas(node, [7] * 100, range(100))
    groups = [
        group(f"group-{number}", dict.fromkeys(((ORDERS, each) for each in range(100)), 0)) for number in range(50)
    ]
    turns = await turns_during(metrics(replicas, node, [], {}).add_to(Exposition()))
    assert await turns_during(metrics(replicas, node, groups, {}).add_to(page)) == turns + 10
    assert 'lograft_group_lag_records{group="group-49"} 700' in page.text().splitlines()


@virtual
async def test_a_replica_that_is_behind_is_not_asked_where_its_partition_ends() -> None:
    node, page = Node(), Exposition()
    replicas = Replicas(node, [100, 5, 5], in_sync=[0])
    behind = group("billing", {(ORDERS, 0): 90, (ORDERS, 1): 10, (ORDERS, 2): 10})
    await metrics(replicas, node, [behind], {(ORDERS, 1): 1000}).add_to(page)
    lines = page.text().splitlines()
    assert 'lograft_group_lag_records{group="billing"} 1000' in lines
    assert 'lograft_group_lag_unknown_partitions{group="billing"} 1' in lines


@virtual
async def test_groups_that_are_told_apart_stay_so_whatever_comes_before_them() -> None:
    node = Node()
    groups = [group("b", {}), group("c", {})]
    told = metrics(Replicas(node, []), node, groups, {}, most_groups=2)

    async def names() -> list[str]:
        page = Exposition()
        await told.add_to(page)
        return re.findall(r'^lograft_group_members\{group="(.*)"\}', page.text(), re.MULTILINE)

    assert await names() == ["b", "c"]
    groups.insert(0, group("a", {}))
    assert await names() == ["(other)", "b", "c"]
    groups.pop(1)
    assert await names() == ["a", "c"]
