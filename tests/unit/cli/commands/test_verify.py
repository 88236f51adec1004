"""Comparing all copies takes a while, in which much may happen."""

from dataclasses import replace
from typing import cast

import pytest
from support.described_clusters import described_partition
from support.raft_nodes import virtual

from lograft.cli.commands.verify import _resource, verdict, verify_each
from lograft.clients.admin.aio_admin import Admin
from lograft.clients.admin.model.types import PartitionVerification
from lograft.clients.errors import LograftError, NoBrokerAvailable, TimedOut, UnknownPartition, UnknownTopic
from lograft.clients.types import TopicPartition

PARTITIONS = [described_partition("t", number, [1, 2]) for number in range(4)]


class Verifier:
    """Has nothing but trouble with some."""

    def __init__(self, trouble: dict[int, LograftError]) -> None:
        self._trouble = trouble

    async def verify_partition(self, topic: str, number: int) -> PartitionVerification:
        if number in self._trouble:
            raise self._trouble[number]
        return PartitionVerification(TopicPartition(topic, number), (1, 2), 0, 10)


@virtual
async def test_what_is_deleted_meanwhile_is_not_missed(capsys: pytest.CaptureFixture[str]) -> None:
    verifier = Verifier({1: UnknownTopic("there is no topic 't'"), 2: UnknownPartition("there is none")})
    found = await verify_each(cast(Admin, verifier), PARTITIONS)
    assert [(each.partition.partition, each.is_well) for each in found] == [(0, True), (3, True)]
    assert capsys.readouterr().err == "t-1 was deleted meanwhile\nt-2 was deleted meanwhile\n"


@virtual
async def test_the_trouble_of_one_is_told_with_what_came_of_the_others() -> None:
    found = await verify_each(cast(Admin, Verifier({1: TimedOut("nobody answers")})), PARTITIONS)
    assert [each.is_well for each in found] == [True, False, True, True]
    assert (found[1].partition, found[1].problem) == (TopicPartition("t", 1), "nobody answers")


@virtual
async def test_a_cluster_that_is_gone_is_not_asked_for_each_partition() -> None:
    with pytest.raises(NoBrokerAvailable):
        await verify_each(cast(Admin, Verifier({1: NoBrokerAvailable("nobody there")})), PARTITIONS)


def test_batches_that_nobody_can_decode_are_named() -> None:
    few = PartitionVerification(PARTITIONS[0].name, (1, 2), 0, 10, undecodable=((3, 4), (6, 6)))
    assert verdict(_resource(few)["status"]) == (
        "same; offsets 3-4, 6 cannot be decoded, and were compared as they are stored"
    )
    many = replace(few, undecodable=tuple((number, number) for number in range(20)))
    assert "8, 9 and 10 batches more cannot" in verdict(_resource(many)["status"])
