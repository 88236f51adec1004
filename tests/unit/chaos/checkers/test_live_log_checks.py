"""Lost, doubled, moved, reordered, invented: each is found in a history that has it, and not in its healthy twin."""

import pytest
from support.live_stories import Story, all_names, found_in

from lograft.broker.replica.interfaces import Acks
from lograft.chaos.checkers.anomalies import AnomalyName
from lograft.chaos.history.entries import FinalReplica, TransactionAborted


def sent(*values: str) -> Story:
    story = Story()
    for offset, value in enumerate(values):
        story.send(value, offset)
    return story


def test_a_healthy_history_has_no_anomalies() -> None:
    story = sent("a", "b", "c")
    story.refused("r")
    story.send("u")
    story.poll({0: "a", 1: "b"}, before=0, after=2, fresh=True)
    story.poll({2: "c"}, before=2, after=3)
    story.replicas(["a", "b", "c", "u"])
    assert all_names(story) == []


# -- lost writes


def test_an_acknowledged_record_that_is_in_no_final_log_is_lost() -> None:
    story = sent("a", "b")
    story.replicas(["a"])
    (lost,) = found_in(story, AnomalyName.LOST_WRITE)
    assert lost.evidence[0] is story.entries[1]
    assert [one.broker for one in lost.evidence[1:] if isinstance(one, FinalReplica)] == [1, 2, 3]
    assert "b was acknowledged at orders-0@1" in lost.summary


def test_a_record_of_which_nobody_knows_is_not_lost() -> None:
    story = sent("a")
    story.send("u")
    story.send("l", 1, acks=Acks.LEADER)
    story.replicas(["a"])
    assert all_names(story) == []


def test_a_replica_that_is_not_in_sync_proves_nothing() -> None:
    story = sent("a", "b")
    story.replicas(["a"])
    story.replica(4, ["a", "b"], in_sync=False)
    assert len(found_in(story, AnomalyName.LOST_WRITE)) == 1


def test_what_retention_may_delete_is_not_lost_and_what_it_may_not_is() -> None:
    story = sent("a", "b")
    story.replicas(["b"], start=1)
    assert all_names(story) == [AnomalyName.LOST_WRITE]
    story.declare(limited=True)
    assert all_names(story) == []


@pytest.mark.parametrize(
    ("stored", "names"),
    [
        ({1: "k2", 2: "j1"}, []),
        ({0: "k1", 2: "j1"}, [AnomalyName.LOST_WRITE]),  # the latest of k is gone
        ({1: "k2"}, [AnomalyName.LOST_WRITE]),
    ],
)
def test_of_a_compacted_partition_the_latest_of_each_key_is_there(
    stored: dict[int, str], names: list[AnomalyName]
) -> None:
    story = Story()
    story.declare(compacted=True)
    story.send("k1", 0, key="k")
    story.send("k2", 1, key="k")
    story.send("j1", 2, key="j")
    story.replicas(stored, end=3)
    assert all_names(story) == names


def test_a_deletion_need_not_stay() -> None:
    story = Story()
    story.declare(compacted=True)
    story.send("k1", 0, key="k")
    story.send("k2", 1, key="k", deletes=True)
    story.replicas({}, end=2)
    assert all_names(story) == []


def test_a_deletion_is_not_gone_before_what_it_deleted() -> None:
    story = Story()
    story.declare(compacted=True)
    story.send("k1", 0, key="k")
    deletion = story.send("k2", 1, key="k", deletes=True)
    replica = story.replica(1, {0: "k1"}, end=2)
    (found,) = found_in(story, AnomalyName.LOST_WRITE)
    assert found.evidence == (deletion, replica)
    assert all_names(story) == [AnomalyName.LOST_WRITE]


def test_a_deletion_that_was_read_is_not_gone_before_what_it_deleted() -> None:
    story = Story()
    story.declare(compacted=True)
    story.send("k1", 0, key="k")
    deletion = story.send("k2", key="k", deletes=True)
    read = story.poll({1: "k2"})
    replica = story.replica(1, {0: "k1"}, end=2)
    (found,) = found_in(story, AnomalyName.LOST_WRITE)
    assert found.evidence == (deletion, read, replica)


def test_a_deletion_is_not_gone_from_one_replica_before_what_it_deleted() -> None:
    """From the other, retention has deleted that."""
    story = Story()
    story.declare(compacted=True, limited=True)
    story.send("k1", 0, key="k")
    deletion = story.send("k2", 1, key="k", deletes=True)
    replica = story.replica(1, {0: "k1"}, end=2)
    story.replica(2, {1: "k2"}, start=1)
    (found,) = found_in(story, AnomalyName.LOST_WRITE)
    assert found.evidence == (deletion, replica)


def test_what_one_replica_must_still_have_is_not_excused_by_where_another_starts() -> None:
    story = Story()
    story.declare(compacted=True, limited=True)
    story.send("k1", 0, key="k")
    lost = story.send("j1", 1, key="j")
    story.send("i1", 2, key="i")
    story.replica(1, {0: "k1", 2: "i1"})
    story.replica(2, {2: "i1"}, start=2)
    (found,) = found_in(story, AnomalyName.LOST_WRITE)
    assert found.evidence[0] is lost


def test_no_log_starts_later_unless_retention_or_an_unclean_election_of_a_damaged_copy_moved_its_start() -> None:
    story = Story()
    story.send("a")
    story.send("b", 1)
    story.replica(1, ["b"], start=1)
    (found,) = found_in(story, AnomalyName.LOST_WRITE)
    assert found.summary == "orders-0 starts at 1, although none of its records may be deleted"
    entries = [*story.entries]
    story.unclean(2)
    assert all_names(story) == []
    story.entries = entries
    story.declare(limited=True)
    assert all_names(story) == []


@pytest.mark.parametrize(("leader_epoch", "names"), [(1, [AnomalyName.LOST_WRITE]), (2, [])])
def test_what_only_the_leader_had_is_not_lost_while_it_leads(leader_epoch: int, names: list[AnomalyName]) -> None:
    story = Story()
    story.send("a", 0, acks=Acks.LEADER, leader_epoch=1)
    story.replica(1, [], leader_epoch=leader_epoch)
    assert all_names(story) == names


@pytest.mark.parametrize(("stored", "names"), [(["a"], []), ([], [AnomalyName.LOST_WRITE])])
def test_a_record_that_was_acknowledged_somewhere_is_somewhere(stored: list[str], names: list[AnomalyName]) -> None:
    story = Story()
    story.send_somewhere("a")
    story.replicas(stored)
    assert all_names(story) == names


# -- taken back


def test_what_was_read_stays_though_nobody_knows_whether_it_was_acknowledged() -> None:
    story = Story()
    story.send("a")
    polled = story.poll({0: "a"})
    story.poll({0: "a"}, consumer="eve")
    story.replicas([])
    (found,) = found_in(story, AnomalyName.TAKEN_BACK)
    assert found.evidence[0] is polled
    assert all_names(story) == [AnomalyName.TAKEN_BACK]


def test_what_was_read_before_an_unclean_election_may_be_gone() -> None:
    story = Story()
    story.send("a", 0)
    story.poll({0: "a"})
    story.unclean(2)
    story.replicas([])
    assert all_names(story) == []


# -- unclean elections


def test_an_unclean_election_ends_what_was_promised_before_and_nothing_else() -> None:
    story = Story()
    story.send("a", 0, leader_epoch=1)
    story.send("b", 1, leader_epoch=1)
    story.unclean(2)
    story.send("c", 1, leader_epoch=2)
    story.replicas(["a", "c"])
    assert all_names(story) == []
    lost = story.send("d", 2, leader_epoch=2)
    (found,) = found_in(story, AnomalyName.LOST_WRITE)
    assert lost in found.evidence


def test_without_an_epoch_time_tells_the_generation() -> None:
    story = Story()
    story.send("a", 0)
    story.unclean(2)
    story.send("b", 0)
    story.replicas(["c"])
    assert [one.evidence[0] for one in found_in(story, AnomalyName.LOST_WRITE)] == [story.entries[2]]


def test_an_old_leader_that_acknowledges_after_the_election_promises_nothing() -> None:
    story = Story()
    story.unclean(2)
    story.send("a", 0, leader_epoch=1)
    story.replicas([])
    assert all_names(story) == []


# -- duplicates


def test_one_value_at_two_offsets_is_a_duplicate() -> None:
    story = sent("a", "b")
    story.replicas(["a", "b", "a"])
    (found,) = found_in(story, AnomalyName.DUPLICATE)
    assert found.summary == "a is in orders-0 at 0 and 2"
    assert found.evidence[0] is story.entries[0]
    assert all_names(story) == [AnomalyName.DUPLICATE, AnomalyName.REORDERED_SENDS]


def test_a_record_that_is_read_elsewhere_than_it_was_acknowledged_is_a_duplicate() -> None:
    story = sent("a")
    polled = story.poll({3: "a"}, fresh=True)
    (found,) = found_in(story, AnomalyName.DUPLICATE)
    assert found.evidence == (story.entries[0], polled)


@pytest.mark.parametrize(("stored_in", "count"), [(1, 0), (2, 1), (3, 1)])
def test_across_an_unclean_election_only_an_earlier_attempt_may_be_found_elsewhere(stored_in: int, count: int) -> None:
    story = Story()
    acknowledged = story.send("a", 3, leader_epoch=2)
    story.unclean(3)
    replica = story.replica(1, ["a"], epochs={0: stored_in})
    found = found_in(story, AnomalyName.DUPLICATE)
    assert [one.evidence for one in found] == [(acknowledged, replica)] * count


# -- inconsistent offsets


def test_two_values_acknowledged_at_one_offset() -> None:
    story = Story()
    story.send("a", 0)
    story.send("b", 0)
    (found,) = found_in(story, AnomalyName.INCONSISTENT_OFFSETS)
    assert found.evidence == tuple(story.entries)


def test_two_readers_that_disagree() -> None:
    story = Story()
    story.send("a")
    story.send("b")
    first = story.poll({0: "a"}, consumer="bob")
    second = story.poll({0: "b"}, consumer="eve")
    (found,) = found_in(story, AnomalyName.INCONSISTENT_OFFSETS)
    assert found.evidence == (first, second)
    assert found.summary == "orders-0@0 is a and b"


def test_a_replica_that_disagrees_with_an_acknowledgement() -> None:
    story = Story()
    acknowledged = story.send("a", 0)
    story.send("b")
    story.replicas(["b", "a"])
    (found, *_) = found_in(story, AnomalyName.INCONSISTENT_OFFSETS)
    assert found.evidence[0] is acknowledged


def test_what_only_the_leader_had_may_be_replaced() -> None:
    story = Story()
    story.send("a", 0, acks=Acks.LEADER)
    story.send("b", 0)
    story.replicas(["b"])
    assert all_names(story) == []


# -- reordered sends


def test_records_of_one_producer_that_changed_places() -> None:
    story = Story()
    first = story.send("a", 1)
    second = story.send("b", 0)
    (found,) = found_in(story, AnomalyName.REORDERED_SENDS)
    assert found.evidence == (first, second)


def test_records_of_two_producers_have_no_order() -> None:
    story = Story()
    story.send("a", 1, producer="ann")
    story.send("b", 0, producer="amy")
    story.replicas(["b", "a"])
    assert all_names(story) == []


def test_records_of_which_nobody_knows_are_in_order_too() -> None:
    story = Story()
    first, second = story.send("a"), story.send("b")
    story.replicas(["b", "a"])
    (found,) = found_in(story, AnomalyName.REORDERED_SENDS)
    assert found.evidence[:2] == (first, second)
    assert all_names(story) == [AnomalyName.REORDERED_SENDS]


# -- phantoms


def test_a_record_that_nobody_sent() -> None:
    story = sent("a")
    polled = story.poll({0: "a", 1: "ghost"})
    (found,) = found_in(story, AnomalyName.PHANTOM)
    assert found.evidence == (polled,)
    assert all_names(story) == [AnomalyName.PHANTOM]


def test_a_record_of_a_send_that_failed_for_certain() -> None:
    story = Story()
    refused = story.refused("r")
    replica = story.replica(1, ["r"])
    (found,) = found_in(story, AnomalyName.PHANTOM)
    assert found.evidence == (refused, replica)


def test_a_record_that_was_sent_to_another_partition() -> None:
    story = Story()
    elsewhere = story.send("a", partition=7)
    polled = story.poll({0: "a"})
    (found,) = found_in(story, AnomalyName.PHANTOM)
    assert found.evidence == (elsewhere, polled)
    assert "was sent to orders-7" in found.summary


# -- transactions


@pytest.mark.parametrize(("transaction", "count"), [("t1", 1), ("t2", 0)])
def test_a_record_of_a_transaction_that_was_aborted_is_read(transaction: str, count: int) -> None:
    story = Story()
    story.send("a", 0, transaction="t1")
    story.add(TransactionAborted(story.tick(), transaction))
    story.poll({0: "a"}, before=0, after=1, fresh=True)
    story.replicas(["a"])
    assert len(found_in(story, AnomalyName.ABORTED_READ)) == count
