"""What brokers have is asked for range by range, while they go on compacting it."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, cast
from uuid import UUID

import pytest

from lograft.clients import replica_verification
from lograft.clients.admin_types import PartitionVerification, ReplicaDescription
from lograft.clients.cluster_client import ClusterClient
from lograft.clients.replica_verification import verify_copies
from lograft.clients.topic_partition import TopicPartition
from lograft.proto import log_pb2 as pb

ORDERS = TopicPartition("orders", 0)


class Brokers:
    """A `ClusterClient` of brokers 1, which leads, and 2. Each has records: (key, content) by offset. `meanwhile`: what
    happens after so many answers."""

    def __init__(self, end: int, *copies: dict[int, tuple[int, int]]) -> None:
        self.copies = {broker: dict(copy) for broker, copy in enumerate(copies, 1)}
        self.end = end
        self.answers = 0
        self.meanwhile: dict[int, Callable[[], None]] = {}

    async def call_broker(self, broker: int, method: str, request: Any, response_type: type[Any]) -> Any:
        assert request.by_record
        found = {at: one for at, one in sorted(self.copies[broker].items()) if request.start <= at < request.end}
        self.answers += 1
        self.meanwhile.pop(self.answers, lambda: None)()
        return pb.DigestReplicaResponse(
            next_offset=request.end,
            offsets=list(found),
            keys=[key for key, _ in found.values()],
            contents=[content for _, content in found.values()],
        )

    async def describe(self) -> Sequence[ReplicaDescription]:
        return [
            ReplicaDescription(ORDERS, broker, broker == 1, 0, 0, self.end, self.end, 0, UUID(int=broker))
            for broker in self.copies
        ]

    def verify(self) -> PartitionVerification:
        cluster = cast(ClusterClient, self)
        return asyncio.run(verify_copies(cluster, bytes(16), ORDERS, (1, 2), self.describe, is_compacted=True))


@pytest.fixture(autouse=True)
def short_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_verification, "_RANGE", 5)


def test_a_key_that_was_written_again_and_compacted_on_one_broker_meanwhile_is_not_missing() -> None:
    brokers = Brokers(10, {1: (7, 1), 9: (8, 1)}, {1: (7, 1), 9: (8, 1)})

    def write_and_compact() -> None:
        for copy in brokers.copies.values():
            copy[10] = (7, 2)
        brokers.end = 11
        del brokers.copies[2][1]

    brokers.meanwhile[1] = write_and_compact
    found = brokers.verify()
    assert found.is_same, found
    assert found.end == 11


def test_a_key_that_is_deleted_and_forgotten_while_it_is_read_is_not_missing() -> None:
    whole = {1: (7, 1), 8: (7, 0), 9: (8, 1)}
    brokers = Brokers(10, whole, {9: (8, 1)})

    def forget() -> None:
        del brokers.copies[1][1], brokers.copies[1][8]

    brokers.meanwhile[2] = forget
    assert brokers.verify().is_same


def test_a_key_that_is_missing_is_missing_whatever_else_happens() -> None:
    whole = {1: (7, 1), 3: (9, 1), 9: (8, 1)}
    brokers = Brokers(10, whole, {1: (7, 1), 9: (8, 1)})

    def write_and_compact() -> None:
        for copy in brokers.copies.values():
            copy[10] = (7, 2)
        brokers.end = 11
        del brokers.copies[2][1]

    brokers.meanwhile[1] = write_and_compact
    found = brokers.verify()
    assert found.offset == 3
    assert found.problem is not None
    assert "broker 2 has nothing of that key" in found.problem
