"""A cluster of real nodes, each a process of its own, and what its operator sees of it."""

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from support.server_processes import ServerProcess, servers, start_all, until
from support.stored_logs import stored_log

from lograft import Admin
from lograft.clients.admin.model.types import PartitionDescription


class LiveCluster:
    """Nodes 1, 2 and 3 have both roles; those after them are brokers only, and not started yet."""

    def __init__(self, nodes: list[ServerProcess], admin: Admin) -> None:
        self.nodes = nodes
        self.admin = admin
        self.bootstrap = bootstrap_of(nodes)

    def node(self, number: int) -> ServerProcess:
        return self.nodes[number - 1]

    def create(self, topic: str, assignments: Sequence[Sequence[int]], **config: str) -> None:
        """A partition for each assignment: its brokers, the leader first."""
        settings = {key.replace("_", "."): value for key, value in config.items()}
        self.admin.create_topic(topic, assignments=assignments, config=settings)
        self.until_in_sync(topic)

    # -- what is there

    def partitions(self, topic: str) -> tuple[PartitionDescription, ...]:
        return self.admin.describe_topic(topic).partitions

    def leaders(self, topic: str) -> list[int | None]:
        return [partition.leader for partition in self.partitions(topic)]

    def active_controller(self) -> int:
        found: list[int] = []

        def look() -> bool:
            leader = self.admin.describe_quorum().leader_id
            found.extend([leader] if leader is not None else [])
            return bool(found)

        until(look, "there is an active controller")
        return found[0]

    def has_left(self, node: ServerProcess, topic: str) -> bool:
        """Is it in no ISR, and does somebody else lead?"""
        return all(one.leader is not None and node.node_id not in one.isr for one in self.partitions(topic))

    def until_in_sync(self, topic: str) -> None:
        until(lambda: all(one.is_in_sync for one in self.partitions(topic)), f"{topic} is in sync")

    def check_replicas_agree(self, topic: str) -> None:
        """Every replica comes to be in sync, and has the same on its disk, record by record. For when all that was sent
        was stored."""
        self.until_in_sync(topic)
        for partition in self.partitions(topic):
            first, *others = [stored_log(self.node(each), topic, partition.number) for each in partition.replicas]
            assert first.batches
            for broker_id, other in zip(partition.replicas[1:], others, strict=True):
                whose = f"{topic}-{partition.number} of node {broker_id}, compared with that of {partition.replicas[0]}"
                assert other.epochs == first.epochs, f"{whose}: {other.epochs} instead of {first.epochs}"
                assert other.batches == first.batches, f"{whose}, has other batches"


def bootstrap_of(nodes: Sequence[ServerProcess]) -> str:
    return ",".join(node.address for node in nodes)


@contextlib.contextmanager
def live_cluster(directory: Path, brokers: int = 0, errors_expected: Sequence[str] = ()) -> Iterator[LiveCluster]:
    """Three nodes that are ready, and `brokers` to be started later. In the end nothing is left of their processes, and
    none of them may have logged an error, but those events that are expected."""
    with servers(directory, 3, brokers) as nodes, Admin(bootstrap_of(nodes)) as admin:
        start_all(nodes[:3])
        yield LiveCluster(nodes, admin)
        errors = [error for node in nodes for error in errors_logged(node) if error["event"] not in errors_expected]
        assert not errors, errors


def errors_logged(node: ServerProcess) -> list[dict[str, Any]]:
    events = [json.loads(line) for line in node.output.splitlines()]
    return [event for event in events if event["level"] in ("error", "critical")]
