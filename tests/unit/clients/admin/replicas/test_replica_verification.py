"""What brokers have is asked for range by range, while they go on compacting it."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast
from uuid import UUID

import pytest
from support.described_clusters import described_partition

from lograft.clients.admin.aio_admin import Admin
from lograft.clients.admin.model.types import ConfigEntry, PartitionVerification, ReplicaDescription, TopicDescription
from lograft.clients.admin.replicas import replica_verification
from lograft.clients.admin.replicas.replica_verification import verify_copies
from lograft.clients.cluster.cluster_client import ClusterClient
from lograft.clients.types import TopicPartition
from lograft.proto import log_pb2 as pb

ORDERS = TopicPartition("orders", 0)


class Brokers:
    """A `ClusterClient` of brokers 1, which leads, and 2. Each has records: (key, content) by offset. `meanwhile`: what
    happens after so many answers."""

    def __init__(self, end: int, *copies: dict[int, tuple[int, int]]) -> None:
        self.copies = {broker: dict(copy) for broker, copy in enumerate(copies, 1)}
        self.cleaned_below = dict.fromkeys(self.copies, 0)
        self.end = end
        self.answers = 0
        self.starts = dict.fromkeys(self.copies, 0)
        self.undecodable: dict[int, dict[int, int]] = {broker: {} for broker in self.copies}  # CRC by offset
        self.after_a_while: Callable[[], None] = lambda: None
        self.runtime = self.clock = self  # it has no other
        self.meanwhile: dict[int, Callable[[], None]] = {}

    async def call_broker(self, broker: int, method: str, request: Any, response_type: type[Any]) -> Any:
        found = {at: one for at, one in sorted(self.copies[broker].items()) if request.start <= at < request.end}
        self.answers += 1
        self.meanwhile.pop(self.answers, lambda: None)()
        answer = pb.DigestReplicaResponse(next_offset=request.end, cleaned_below=self.cleaned_below[broker])
        for offset, (key, content) in found.items():
            if request.by_record:
                answer.offsets.append(offset)
                answer.keys.append(key)
                answer.contents.append(content)
            else:
                answer.batches.add(base_offset=offset, next_offset=offset + 1, crc=100 * key + content)
        for offset, crc in self.undecodable[broker].items():
            if request.start <= offset < request.end:
                answer.batches.add(base_offset=offset, next_offset=offset + 2, crc=crc)
        return answer

    async def describe(self) -> Sequence[ReplicaDescription]:
        return [
            ReplicaDescription(
                ORDERS, broker, broker == 1, 0, self.starts[broker], self.end, self.end, 0, UUID(int=broker)
            )
            for broker in self.copies
        ]

    async def sleep_ms(self, _: float) -> None:
        self.after_a_while()

    def verify(self, *, is_compacted: bool = True) -> PartitionVerification:
        cluster = cast(ClusterClient, self)
        return asyncio.run(verify_copies(cluster, bytes(16), ORDERS, (1, 2), self.describe, is_compacted=is_compacted))


@pytest.fixture(autouse=True)
def short_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_verification, "_RANGE", 5)


def test_a_batch_that_nobody_can_decode_is_compared_as_it_is_stored_and_named() -> None:
    brokers = Brokers(10, {1: (7, 1), 9: (8, 1)}, {1: (7, 1), 9: (8, 1)})
    for each in brokers.undecodable.values():
        each |= {3: 1, 6: 2}
    found = brokers.verify()
    assert (found.is_well, found.undecodable) == (True, ((3, 4), (6, 7)))
    brokers.undecodable[2][6] = 3
    found = brokers.verify()
    assert (found.is_same, found.offset) == (False, 6)
    assert "broker 2 has offsets 6-7, epoch 0, crc 00000003" in (found.problem or "")
    brokers.undecodable[2][6] = 2
    brokers.copies[2][9] = (8, 2)
    assert brokers.verify().offset == 9, "what can be decoded is compared all the same"


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


WRITTEN = {offset: (offset % 3 + 1, offset + 1) for offset in range(20)}


def test_what_was_compacted_before_the_topic_was_told_not_to_be_is_the_same() -> None:
    compacted = {offset: one for offset, one in WRITTEN.items() if offset >= 7}
    brokers = Brokers(20, WRITTEN, compacted)
    brokers.cleaned_below[2] = 10
    assert brokers.verify(is_compacted=False).is_same


@pytest.mark.parametrize(
    ("lost", "told"),
    [
        pytest.param([0, 15], 15, id="superseded, but not compacted"),
        pytest.param([0, 18, 19], 18, id="the end"),
        pytest.param([0, *range(10, 20)], 10, id="all that is not compacted"),
    ],
)
def test_what_is_lost_where_nothing_was_compacted_is_told(lost: list[int], told: int) -> None:
    brokers = Brokers(20, WRITTEN, {offset: one for offset, one in WRITTEN.items() if offset not in lost})
    brokers.cleaned_below[2] = 10
    assert brokers.verify(is_compacted=False).offset == told
    brokers.cleaned_below[2] = 0
    assert brokers.verify(is_compacted=False).offset == 0


def test_what_is_lost_where_it_was_compacted_is_told_if_nothing_supersedes_it() -> None:
    whole = WRITTEN | {5: (9, 1)}
    brokers = Brokers(20, whole, {offset: one for offset, one in whole.items() if offset >= 7})
    brokers.cleaned_below[2] = 10
    found = brokers.verify(is_compacted=False)
    assert found.offset == 5


class Unsteady(Admin):
    """Of a topic whose copies differ, and whose partition is in another epoch at each look, but the last ones."""

    def __init__(self, changes: int) -> None:
        self.looks = 0
        self._changes = changes

    async def describe_config(self, *_: object) -> list[ConfigEntry]:
        return [ConfigEntry("cleanup.policy", "delete", "default", "delete", "list", "")]

    async def describe_topic(self, name: str) -> TopicDescription:
        self.looks += 1
        assert self.looks < 50, "for ever"
        partition = replace(described_partition(name, 0, [1, 2]), partition_epoch=min(self.looks, self._changes))
        return TopicDescription(UUID(int=5), name, False, (partition,), {})

    def _open(self) -> ClusterClient:
        return cast(ClusterClient, None)


@pytest.mark.parametrize(("changes", "problem"), [(4, "differs"), (1000, "came and went")])
def test_a_difference_counts_if_nothing_changed_meanwhile_and_that_is_not_waited_for_without_end(
    changes: int, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def differ(*_: object, **__: object) -> PartitionVerification:
        return PartitionVerification(ORDERS, (1, 2), 0, 10, 3, "differs")

    monkeypatch.setattr("lograft.clients.admin.replicas.replica_verification.verify_copies", differ)
    admin = Unsteady(changes)
    found = asyncio.run(admin.verify_partition("orders", 0))
    assert found.problem is not None
    assert problem in found.problem
    assert admin.looks == (5 if changes == 4 else 10)


@pytest.mark.parametrize("broker", [1, 2], ids=["leader", "follower"])
def test_log_starts_that_stay_different_are_told(broker: int) -> None:
    """What is common is the same; but one of them lacks what the other has."""
    brokers = Brokers(10, {7: (7, 1)}, {7: (7, 1)})
    brokers.starts[broker] = 5
    found = brokers.verify(is_compacted=False)
    assert (found.is_same, found.offset) == (False, 0)
    assert found.problem is not None
    assert f"broker {broker} has nothing below 5" in found.problem
    assert f"broker {3 - broker} has nothing below 0" in found.problem


def test_a_follower_that_is_about_to_delete_what_its_leader_has_is_no_difference() -> None:
    brokers = Brokers(10, {7: (7, 1)}, {7: (7, 1)})
    brokers.starts[1] = 5
    brokers.after_a_while = lambda: brokers.starts.update({2: 5})
    assert brokers.verify(is_compacted=False).is_same
