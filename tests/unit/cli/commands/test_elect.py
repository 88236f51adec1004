"""Elections by command: who needs one, and how long one is waited for."""

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import pytest
from support.described_clusters import described_partition
from support.raft_nodes import virtual

from lograft.cli.commands.elect import elect_patiently, needs_election
from lograft.clients.admin.aio_admin import Admin
from lograft.clients.admin.model.types import Election, ElectionKind
from lograft.clients.errors import EligibleLeaderNotAvailable, LograftError, UnknownPartition
from lograft.clients.types import TopicPartition
from lograft.runtime.clock import LoopClock

NAMES = [TopicPartition("t", number) for number in range(3)]


class Electorate:
    """Elects a partition when it was asked as often as `times` says of it; before that it is refused."""

    def __init__(self, times: dict[TopicPartition, int], refusal: LograftError) -> None:
        self._times = times
        self._refusal = refusal
        self.asked: list[list[TopicPartition] | None] = []

    async def elect_leaders(self, kind: ElectionKind, partitions: Sequence[TopicPartition] | None) -> list[Election]:
        assert kind is ElectionKind.UNCLEAN
        self.asked.append(None if partitions is None else list(partitions))
        results = []
        for name in self._times if partitions is None else partitions:
            self._times[name] -= 1
            is_ready = self._times[name] <= 0
            results.append(Election(name, 1 if is_ready else None, 1, None if is_ready else self._refusal))
        return results


NOT_YET = EligibleLeaderNotAvailable("broker 2 has not yet said how much it has")


@virtual
async def test_what_brokers_have_not_said_yet_is_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    electorate = Electorate({NAMES[0]: 1, NAMES[1]: 3, NAMES[2]: 2}, NOT_YET)
    elections = await elect_patiently(cast(Admin, electorate), None, 30_000, LoopClock())
    assert [(each.partition, each.leader) for each in elections] == [(name, 1) for name in NAMES]
    assert electorate.asked == [None, NAMES[1:], [NAMES[1]]]
    assert capsys.readouterr().err == "Waiting: broker 2 has not yet said how much it has\n"


@virtual
async def test_it_is_not_waited_for_ever() -> None:
    electorate = Electorate({NAMES[0]: 1000}, NOT_YET)
    (election,) = await elect_patiently(cast(Admin, electorate), NAMES[:1], 3000, LoopClock())
    assert election.error is NOT_YET
    assert len(electorate.asked) == 6


@virtual
async def test_a_refusal_for_good_is_not_waited_for() -> None:
    electorate = Electorate({NAMES[0]: 2}, UnknownPartition("there is none"))
    (election,) = await elect_patiently(cast(Admin, electorate), NAMES[:1], 3000, LoopClock())
    assert isinstance(election.error, UnknownPartition)
    assert electorate.asked == [NAMES[:1]]


def test_who_needs_an_election() -> None:
    partition = described_partition("t", 0, [1, 2, 3])
    assert not needs_election(ElectionKind.PREFERRED, partition)
    assert needs_election(ElectionKind.PREFERRED, replace(partition, leader=2))
    assert not needs_election(ElectionKind.PREFERRED, replace(partition, leader=2, isr=(2, 3)))
    assert not needs_election(ElectionKind.UNCLEAN, partition)
    assert needs_election(ElectionKind.UNCLEAN, replace(partition, leader=None))
