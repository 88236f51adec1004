"""Decisions are made on what is to come, and answered when it has come."""

import asyncio
from typing import Any
from uuid import UUID

import pytest
from support.raft_nodes import virtual
from support.scripted_quorum import Office, in_office, list_names, name_topic, refusal, settle

from lograft.metadata.controller.active_controller import ControllerLimits
from lograft.metadata.image.records import TopicCreated
from lograft.proto import errors_pb2
from lograft.raft.errors import EntryTooLarge, NodeStopped, NotLeader, Overloaded, ProposalReplaced, RaftError


def names(office: Office) -> list[str]:
    return sorted(office.machine.image.topic_ids)


# -- out of office


@virtual
async def test_who_is_not_in_office_says_who_is() -> None:
    async with in_office() as office:
        office.node.lose(to=3)
        (task,) = await office.submitted(name_topic("a", 1))
        error = await refusal(task)
        assert error.code == errors_pb2.NOT_CONTROLLER
        assert error.leader_id == 3 == office.controller.active_hint
        assert not office.controller.is_active
        assert office.controller.term is None


@virtual
async def test_nothing_is_decided_before_all_that_earlier_leaders_committed_is_applied() -> None:
    async with in_office() as office:
        office.node.lose()
        office.node.leader = office.node.member  # elected, but its first entry is not committed
        (task,) = await office.submitted(name_topic("a", 1))
        assert (await refusal(task)).code == errors_pb2.NOT_CONTROLLER
        assert office.controller.active_hint is None
        assert office.node.queued == []


@virtual
async def test_a_controller_that_is_closed_accepts_nothing() -> None:
    async with in_office() as office:
        office.controller.close()
        (task,) = await office.submitted(name_topic("a", 1))
        assert (await refusal(task)).code == errors_pb2.NOT_CONTROLLER
        assert not office.controller.is_active


# -- changes


@virtual
async def test_a_change_is_answered_when_it_is_committed_and_not_before() -> None:
    async with in_office() as office:
        (task,) = await office.submitted(name_topic("a", 1))
        office.node.take_in()
        await settle()
        assert not task.done()
        assert names(office) == []
        office.node.commit()
        await settle()
        assert task.result().answer == UUID(int=1)
        assert task.result().index == office.node.index == office.machine.index
        assert names(office) == ["a"]


@virtual
async def test_a_decision_sees_what_is_under_way_before_it() -> None:
    async with in_office() as office:
        seen: list[int] = []

        def count(name: str, number: int) -> Any:
            def decide(image: Any) -> Any:
                seen.append(len(image.topics))
                return name_topic(name, number)(image)

            return decide

        tasks = await office.submitted(count("a", 1), count("b", 2), count("c", 3))
        assert seen == [0, 1, 2]
        assert len(office.node.queued) == 3
        assert len(office.controller.image.topics) == 3
        office.node.commit()
        await settle()
        assert [task.result().answer.int for task in tasks] == [1, 2, 3]
        assert office.controller.image == office.machine.image


@virtual
async def test_a_caller_that_went_away_leaves_its_change_and_disturbs_nobody() -> None:
    async with in_office() as office:
        gone, other = await office.submitted(name_topic("a", 1), name_topic("b", 2))
        gone.cancel()
        await settle()
        (after,) = await office.submitted(name_topic("c", 3))
        office.node.commit()
        await settle()
        assert names(office) == ["a", "b", "c"]
        assert other.result().index == after.result().index - 1


# -- answers without a change


@virtual
async def test_an_answer_without_a_change_waits_for_what_it_saw_and_for_a_majority() -> None:
    async with in_office() as office:
        _, listing, refused = await office.submitted(name_topic("a", 1), list_names, name_topic("a", 2))
        office.node.answer_reads()
        await settle()
        assert not listing.done()
        assert not refused.done()
        office.node.commit()
        await settle()
        assert listing.result().answer == ["a"]
        assert listing.result().index == office.machine.index
        assert (await refusal(refused)).code == errors_pb2.TOPIC_ALREADY_EXISTS


@virtual
async def test_what_is_under_way_does_not_prove_that_nobody_else_leads() -> None:
    """It may have been accepted by the others long before the question, and they have elected another since."""
    async with in_office() as office:
        _, listing = await office.submitted(name_topic("a", 1), list_names)
        office.node.commit()
        await settle()
        assert not listing.done()
        office.node.lose(to=2)
        assert (await refusal(listing)).code == errors_pb2.NOT_CONTROLLER


@virtual
async def test_an_answer_on_nothing_under_way_waits_for_a_majority() -> None:
    async with in_office() as office:
        (listing,) = await office.submitted(list_names)
        assert not listing.done()
        office.node.answer_reads()
        await settle()
        assert listing.result().answer == []
        assert listing.result().index == office.node.index


@virtual
async def test_an_answer_is_void_once_the_office_it_was_given_in_is_over() -> None:
    """Even if the node is in office again when the question comes back."""
    async with in_office() as office:
        (listing,) = await office.submitted(list_names)
        reads, office.node.reads = office.node.reads, []
        office.node.lose()
        office.node.commit_of_others(TopicCreated(_id(9), "x"))
        office.node.lead()
        reads[0].set_result(office.node.index)
        assert (await refusal(listing)).code == errors_pb2.NOT_CONTROLLER


@virtual
async def test_a_refusal_on_what_was_lost_is_not_given() -> None:
    async with in_office() as office:
        created, refused = await office.submitted(name_topic("a", 1), name_topic("a", 2))
        office.node.answer_reads()
        await settle()
        office.node.take_in()
        office.node.lose(to=2)
        error = await refusal(refused)
        assert error.code == errors_pb2.NOT_CONTROLLER
        assert error.leader_id == 2
        assert (await refusal(created)).code == errors_pb2.CONTROLLER_MOVED


@virtual
async def test_a_refusal_on_what_was_itself_refused_is_not_given() -> None:
    async with in_office() as office:
        created, refused = await office.submitted(name_topic("a", 1), name_topic("a", 2))
        office.node.answer_reads()
        await settle()
        office.node.refuse_queued(Overloaded("full"))
        error = await refusal(refused)
        assert error.code == errors_pb2.UNAVAILABLE
        assert error.retriable
        assert (await refusal(created)).code == errors_pb2.UNAVAILABLE


# -- what goes wrong


@pytest.mark.parametrize(
    ("refused_with", "code", "leader_id"),
    [
        (NotLeader(2), errors_pb2.NOT_CONTROLLER, 2),
        (ProposalReplaced("gave way"), errors_pb2.NOT_CONTROLLER, 1),
        (Overloaded("full"), errors_pb2.UNAVAILABLE, None),
        (NodeStopped(), errors_pb2.UNAVAILABLE, None),
        (EntryTooLarge(9, 8), errors_pb2.INVALID_REQUEST, None),
    ],
)
@pytest.mark.parametrize("is_at_once", [True, False])
def test_a_refused_change_leaves_no_trace(
    refused_with: RaftError, code: int, leader_id: int | None, is_at_once: bool
) -> None:
    @virtual
    async def scenario() -> None:
        async with in_office() as office:
            office.node.refuses_with = refused_with if is_at_once else None
            (task,) = await office.submitted(name_topic("a", 1))
            office.node.refuse_queued(refused_with)
            error = await refusal(task)
            assert (error.code, error.leader_id) == (code, leader_id)
            assert not error.outcome_unknown
            office.node.refuses_with = None
            (again,) = await office.submitted(name_topic("a", 2))
            office.node.commit()
            await settle()
            assert again.result().answer == UUID(int=2)

    scenario()


@virtual
async def test_what_was_decided_on_a_refused_change_does_nothing() -> None:
    async with in_office() as office:
        before, refused = await office.submitted(name_topic("a", 1), name_topic("b", 2))
        office.node.take_in()
        # The word that it was refused is still on its way when others are decided on it.
        data, answer = office.node.appended.pop()
        upon_it, upon_that = await office.submitted(name_topic("c", 3), name_topic("d", 4))
        answer.set_exception(NotLeader(None))
        await settle()
        (after,) = await office.submitted(name_topic("b", 5))
        assert sorted(office.controller.image.topic_ids) == ["a", "b"]
        office.node.commit()
        await settle()
        assert before.result().answer.int == 1
        assert (await refusal(refused)).code == errors_pb2.NOT_CONTROLLER
        assert (await refusal(upon_it)).code == errors_pb2.UNAVAILABLE
        assert (await refusal(upon_that)).code == errors_pb2.UNAVAILABLE
        assert after.result().answer.int == 5
        assert names(office) == ["a", "b"]
        assert office.controller.image == office.machine.image
        assert data


@virtual
async def test_many_refusals_at_once_cost_one_new_start() -> None:
    async with in_office() as office:
        tasks = await office.submitted(*[name_topic(str(number), number) for number in range(100)])
        copies = 0
        original = office.machine.image.copy

        def copy() -> Any:
            nonlocal copies
            copies += 1
            return original()

        office.machine.image.copy = copy  # type: ignore[method-assign]
        office.node.refuse_queued(NotLeader(None))
        assert {(await refusal(task)).code for task in tasks} == {errors_pb2.NOT_CONTROLLER}
        await office.submitted(name_topic("a", 1000), name_topic("b", 1001))
        assert copies == 1


@pytest.mark.parametrize("surviving", [0, 1, 2])
def test_when_leadership_is_lost_the_outcome_is_unknown_and_the_next_office_begins_with_what_came_of_it(
    surviving: int,
) -> None:
    @virtual
    async def scenario() -> None:
        async with in_office() as office:
            appended = await office.submitted(name_topic("a", 1), name_topic("b", 2))
            office.node.take_in()
            (queued,) = await office.submitted(name_topic("c", 3))
            office.node.lose(to=2, surviving=surviving)
            for task in appended:
                error = await refusal(task)
                assert error.code == errors_pb2.CONTROLLER_MOVED
                assert error.outcome_unknown
            assert (await refusal(queued)).code == errors_pb2.NOT_CONTROLLER
            office.node.commit_of_others(TopicCreated(_id(9), "x"))
            office.node.lead()
            expected = [*["a", "b"][:surviving], "x"]
            assert sorted(office.controller.image.topic_ids) == expected
            (task,) = await office.submitted(name_topic("c", 4))
            office.node.commit()
            await settle()
            assert task.result().answer.int == 4
            assert names(office) == sorted([*expected, "c"])

    scenario()


@virtual
async def test_nothing_is_proposed_in_another_office_than_it_was_decided_in() -> None:
    """Its sequence would be right, and the state another."""
    async with in_office() as office:
        task = office.submit(name_topic("a", 1))
        await asyncio.sleep(0)  # decided, and not yet proposed
        office.node.lose()
        office.node.lead()
        assert (await refusal(task)).code == errors_pb2.NOT_CONTROLLER
        assert office.node.queued == []


@virtual
async def test_only_so_many_may_wait() -> None:
    async with in_office(ControllerLimits(max_waiting=3)) as office:
        waiting = await office.submitted(name_topic("a", 1), list_names, name_topic("a", 2))
        (task,) = await office.submitted(name_topic("b", 3))
        error = await refusal(task)
        assert error.code == errors_pb2.UNAVAILABLE
        assert error.retriable
        waiting[0].cancel()  # its change still waits
        await settle()
        assert (await refusal((await office.submitted(name_topic("b", 3)))[0])).code == errors_pb2.UNAVAILABLE
        office.node.answer_reads()
        office.node.commit()
        await settle()
        (task,) = await office.submitted(name_topic("b", 4))
        office.node.commit()
        await settle()
        assert task.result().answer.int == 4


@virtual
async def test_when_the_controller_is_torn_down_nobody_is_left_waiting() -> None:
    office = Office()
    running = asyncio.ensure_future(office.controller.run())
    await settle()
    office.node.lead()
    changing, listing = await office.submitted(name_topic("a", 1), list_names)
    running.cancel()
    await settle()
    assert running.cancelled()
    assert (await refusal(changing)).code == errors_pb2.CONTROLLER_MOVED
    office.node.answer_reads()
    error = await refusal(listing)
    assert error.code in (errors_pb2.UNAVAILABLE, errors_pb2.NOT_CONTROLLER)


@virtual
async def test_what_was_decided_in_the_last_moment_is_answered_too() -> None:
    office = Office()
    running = asyncio.ensure_future(office.controller.run())
    await settle()
    office.node.lead()
    task = office.submit(name_topic("a", 1))
    running.cancel()
    await settle()
    assert running.cancelled()
    assert (await refusal(task)).code == errors_pb2.UNAVAILABLE
    assert office.node.queued == []


@virtual
async def test_a_broken_decision_breaks_the_caller_and_nothing_else() -> None:
    def broken(image: Any) -> Any:
        raise AssertionError("a bug")

    async with in_office() as office:
        (task,) = await office.submitted(broken)
        with pytest.raises(AssertionError, match="a bug"):
            await task
        (other,) = await office.submitted(name_topic("a", 1))
        office.node.commit()
        await settle()
        assert other.result().answer.int == 1


def _id(number: int) -> Any:
    return UUID(int=number)
