"""Commands that move partitions: what they begin, tell and wait for, of a cluster that does as a test says."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest
from support.described_clusters import described
from support.raft_nodes import virtual

from lograft.cli.common.cluster_options import Settings
from lograft.cli.common.command_error import CommandError
from lograft.cli.operations.reassignment_run import Look, begin, hindrances, plan, wait_for
from lograft.clients.admin.aio_admin import Admin
from lograft.clients.admin.model.types import ClusterDescription, Reassignment, ReplicaDescription
from lograft.clients.admin.planning.reassignment_plan import CannotPlan, Move
from lograft.clients.errors import InvalidReassignment, LograftError, UnknownTopic
from lograft.clients.types import TopicPartition

MOVES = [Move(TopicPartition("t", number), (1, 2), (1, 3)) for number in range(3)]


class ScriptedAdmin:
    """Each look at the cluster is the next of `looks`, and then the last again."""

    def __init__(self, *looks: ClusterDescription) -> None:
        self.looks = list(looks)
        self.refused: dict[tuple[str, int], LograftError] = {}
        self.asked: list[tuple[dict[tuple[str, int], Any], bool]] = []

    async def describe_cluster(self, topics: Sequence[str] = (), *, include_internal: bool) -> ClusterDescription:
        assert include_internal
        return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]

    async def list_reassignments(self, topics: Sequence[str] = ()) -> list[Reassignment]:
        return []

    async def describe_replicas(self, topics: Sequence[str], *, include_internal: bool) -> list[ReplicaDescription]:
        return []

    async def reassign(
        self, targets: Mapping[tuple[str, int], Any], *, validate_only: bool
    ) -> dict[tuple[str, int], LograftError | None]:
        self.asked.append((dict(targets), validate_only))
        return {name: self.refused.get(name) for name in targets}


def scripted(*looks: ClusterDescription) -> Admin:
    return cast(Admin, ScriptedAdmin(*looks))


def cluster(*replicas: Sequence[int], moving: Sequence[int] = (), fenced: Sequence[int] = ()) -> ClusterDescription:
    """A topic with these partitions, of which those `moving` get broker 3 and lose broker 2."""
    made = described({"t": replicas}, fenced=fenced)
    partitions = tuple(
        replace(each, replicas=(1, 2, 3), adding=(3,), removing=(2,)) if each.number in moving else each
        for each in made.topics[0].partitions
    )
    return replace(made, topics=(replace(made.topics[0], partitions=partitions),))


PATIENT = Settings("b:1", 30_000, first_contact_ms=5000)


@virtual
async def test_each_is_told_when_it_is_through(capsys: pytest.CaptureFixture[str]) -> None:
    looks = [
        cluster([1, 2], [1, 2], [1, 2], moving=[0, 1, 2]),
        cluster([1, 2], [1, 3], [1, 2], moving=[0, 2]),
        cluster([1, 3], [1, 3], [1, 3]),
    ]
    await wait_for(scripted(*looks), PATIENT, MOVES, print)
    assert capsys.readouterr().out == (
        "partition/t-1 reassigned\npartition/t-0 reassigned\npartition/t-2 reassigned\n"
    )  # fmt: skip


@virtual
async def test_what_somebody_cancelled_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CommandError, match=r"t-1 \(1,2\); the moves were cancelled"):
        await wait_for(scripted(cluster([1, 3], [1, 2], [1, 3])), PATIENT, MOVES, print)
    assert capsys.readouterr().out == "partition/t-0 reassigned\npartition/t-2 reassigned\n"


@virtual
async def test_what_is_deleted_meanwhile_is_told_and_not_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    """Or deleted and created anew, with fewer partitions."""
    others = [Move(TopicPartition("s", 0), (1, 2), (1, 3))]
    looks = [
        cluster([1, 2], [1, 2], [1, 2], moving=[0, 1, 2]),
        cluster([1, 3], [1, 2], moving=[1]),
        cluster([1, 3], [1, 3]),
    ]
    with pytest.raises(CommandError, match=r"not placed according to the plan: s-0 \(deleted\), t-2 \(deleted\)"):
        await wait_for(scripted(*looks), PATIENT, [*MOVES, *others], print)
    assert capsys.readouterr().out == "partition/t-0 reassigned\npartition/t-1 reassigned\n"


@virtual
async def test_it_is_waited_for_ever_and_told_what_for_unless_a_time_is_said(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stuck = cluster([1, 3], [1, 2], [1, 2], moving=[1, 2], fenced=[3])
    through = cluster([1, 3], [1, 3], [1, 3])
    await wait_for(scripted(*[stuck] * 200, through), PATIENT, MOVES, print)
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 19
    assert set(told) == {
        "1 of 3 partitions moved; waiting for broker 3, which is fenced",
    }
    with pytest.raises(CommandError, match="timed out after 7s: 1 of 3 partitions moved"):
        await wait_for(scripted(stuck), Settings("b:1", 7000), MOVES, print)


@virtual
async def test_what_is_refused_does_not_keep_the_others_from_it(capsys: pytest.CaptureFixture[str]) -> None:
    admin = ScriptedAdmin(cluster())
    admin.refused = {("t", 0): InvalidReassignment("because"), ("t", 2): InvalidReassignment("so it is")}
    failures = await begin(cast(Admin, admin), MOVES, print, dry_run=False)
    assert [failure.message for failure in failures] == ["because", "so it is"]
    assert capsys.readouterr().out == "partition/t-1 reassignment started: 1,2 -> 1,3\n"
    assert admin.asked == [({("t", number): (1, 3) for number in range(3)}, False)]


@virtual
async def test_a_dry_run_asks_whether_it_could_be(capsys: pytest.CaptureFixture[str]) -> None:
    admin = ScriptedAdmin(cluster())
    await begin(cast(Admin, admin), MOVES[:1], print, dry_run=True)
    assert capsys.readouterr().out == "partition/t-0 would be reassigned: 1,2 -> 1,3\n"
    assert [validate_only for _, validate_only in admin.asked] == [True]


def test_who_has_to_come_back_is_named() -> None:
    seen = cluster([1, 2], [1, 2], moving=[0, 1], fenced=[1])
    moving = [replace(each, leader=None, isr=()) for each in seen.topics[0].partitions]
    assert hindrances(seen, moving) == [
        "waiting for broker 1, which is fenced",
        "t-0, t-1 have no leader to copy from",
    ]
    assert hindrances(seen, moving * 2)[1].startswith("t-0, t-1, t-0 and 1 more have no leader")
    in_sync = [replace(each, isr=(1, 2, 3)) for each in seen.topics[0].partitions]
    assert hindrances(seen, in_sync) == []


def test_a_plan_that_cannot_be_is_told_with_its_remedy() -> None:
    def refuse(_: ClusterDescription, __: list[Reassignment], *, full: Collection[int]) -> list[Move]:
        raise CannotPlan("no room", "make some")

    seen = Look(cluster(), [])
    with pytest.raises(CommandError, match="no room") as caught:
        plan(seen, refuse)
    assert caught.value.remedy == "make some"
    with pytest.raises(UnknownTopic, match="'nonsense'"):
        plan(seen, refuse, ["nonsense"])
