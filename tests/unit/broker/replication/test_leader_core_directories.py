"""What a follower has counts only from the directory that the metadata name, or that its join names."""

from uuid import UUID

from support.metadata_images import broker, directory, epoch_of, partition, replica

from lograft.broker.replication.leader_core import LeaderCore, LeaderLogEnds, Subscriber, Subscription
from lograft.metadata.image.broker import Broker
from lograft.metadata.image.partition import BrokerId, PartitionEpoch

LAG_MS = 10_000
BROKERS: dict[BrokerId, Broker] = {BrokerId(number): broker(number, directories=2) for number in (1, 2, 3)}


def leader(*isr: int) -> LeaderCore:
    """Broker 1, with a log of 10 records that are durable."""
    state = partition(1, 2, 3, isr=isr, leader_epoch=4, partition_epoch=7)
    return LeaderCore(BrokerId(1), state, 1, LeaderLogEnds(0, 0, 10, 10), 0, lag_time_max_ms=LAG_MS, now_ms=0)


def follow(core: LeaderCore, broker_id: int, directory_id: UUID, number: int = 1, end: int = 10) -> Subscription:
    subscriber = Subscriber(BrokerId(broker_id), epoch_of(broker_id), directory_id, number)
    subscription = core.subscribed(subscriber, 4, PartitionEpoch(7), end, 0)
    core.matched(subscription, 0)
    return subscription


def test_a_copy_in_another_directory_does_not_count() -> None:
    core = leader(1, 2)
    elsewhere = follow(core, 2, directory(2, 1), end=3)
    assert core.high_watermark == 0
    assert not core.acknowledged(elsewhere, 4, PartitionEpoch(7), 10)
    assert core.high_watermark == 0
    follow(core, 2, directory(2, 0), number=2)
    assert core.high_watermark == 10


def test_a_copy_in_another_directory_counts_once_the_metadata_name_that() -> None:
    core = leader(1, 2)
    follow(core, 2, directory(2, 1))
    moved = partition(1, replica(2, 1), 3, isr=[1, 2], leader_epoch=4, partition_epoch=8)
    assert core.image_changed(moved, 1, 0)
    assert core.high_watermark == 10


def test_who_is_in_the_isr_with_another_copy_is_behind() -> None:
    core = leader(1, 2)
    follow(core, 2, directory(2, 1))
    proposal = core.propose(BROKERS, LAG_MS + 1)
    assert proposal is not None
    assert [member.broker_id for member in proposal.isr] == [1]


def test_who_joins_counts_from_the_directory_that_it_joins_from() -> None:
    core = leader(1)
    core.appended(12, 0)
    joining = follow(core, 2, directory(2, 1))
    proposal = core.propose(BROKERS, 0)
    assert proposal is not None
    assert proposal.isr[1].directory_id == directory(2, 1)
    core.own_durable(12)
    assert core.high_watermark == 10, "it counts, and has no more"
    assert core.acknowledged(joining, 4, PartitionEpoch(7), 11)
    assert core.high_watermark == 11
    follow(core, 2, directory(2, 0), number=2, end=12)
    assert core.high_watermark == 11, "the metadata may have the other one"


def test_a_join_in_doubt_is_not_asked_for_again_from_another_directory() -> None:
    core = leader(1)
    follow(core, 2, directory(2, 1))
    proposal = core.propose(BROKERS, 0)
    assert proposal is not None
    core.alteration_unknown(proposal, 0)
    follow(core, 2, directory(2, 0), number=2)
    confirming = core.propose(BROKERS, 1000)
    assert confirming is not None
    assert [member.broker_id for member in confirming.isr] == [1]


def test_a_join_in_doubt_is_asked_for_again_from_the_same_directory() -> None:
    core = leader(1)
    follow(core, 2, directory(2, 1))
    proposal = core.propose(BROKERS, 0)
    assert proposal is not None
    core.alteration_unknown(proposal, 0)
    follow(core, 2, directory(2, 1), number=2)
    assert core.propose(BROKERS, 1000) == proposal
