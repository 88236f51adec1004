"""A broker's process registers."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from support import metadata_images
from support.metadata_images import (
    ACTIVE,
    FENCED,
    apply,
    broker,
    directory,
    ids,
    partition,
    replica,
    topic_id,
)

from lograft.metadata.decisions.brokers.registration import Registration, latest_epoch, register, unregister_broker
from lograft.metadata.decisions.brokers.report_failures import report_failures
from lograft.metadata.decisions.decision import Decision
from lograft.metadata.image.broker import Broker
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerEpoch, BrokerId, Partition
from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ControllerError

INCARNATION = UUID(int=77)


def image_with(*brokers: Broker, **others: Any) -> ClusterImage:
    image = metadata_images.image_with(*brokers, **others)
    image.feature_level = 1
    return image


def registration(broker_id: int = 1, **changes: object) -> Registration:
    usual = Registration(
        broker_id=BrokerId(broker_id),
        incarnation=INCARNATION,
        address="host:9092",
        rack=None,
        directories=(directory(broker_id),),
        boot_id="boot",
        clean_epoch=None,
        min_feature_level=0,
        max_feature_level=1,
    )
    return replace(usual, **changes)  # type: ignore[arg-type]


def decide(image: ClusterImage, request: Registration, *, is_old_alive: bool = False) -> Decision[BrokerEpoch]:
    """Of a process that has asked for the latest epoch just now."""
    previous_epoch = latest_epoch(image, request.broker_id)
    return register(image, request, previous_epoch=previous_epoch, is_old_alive=is_old_alive)


def registered(image: ClusterImage, request: Registration, *, is_old_alive: bool = False) -> ClusterImage:
    return apply(image, decide(image, request, is_old_alive=is_old_alive))


def first_partition(image: ClusterImage) -> Partition:
    found = image.partition(topic_id(1), 0)
    assert found is not None
    return found


def test_a_new_broker_is_fenced_and_has_an_epoch_above_all_others() -> None:
    image = image_with(broker(1, epoch=5), broker(2, epoch=9))
    decision = decide(image, registration(3, rack="a", version="1.2.3"))
    added = apply(image, decision).brokers[BrokerId(3)]
    assert decision.answer == added.epoch == 10
    assert added.state is FENCED
    assert added.rack == "a"
    assert added.version == "1.2.3"


def test_the_same_process_asking_again_keeps_its_epoch() -> None:
    image = image_with(broker(2))
    first = decide(image, registration(1))
    again = decide(apply(image, first), registration(1), is_old_alive=True)
    assert again.answer == first.answer
    assert again.records == ()


def test_a_new_process_leaves_every_isr_and_leads_nothing() -> None:
    image = image_with(
        broker(1), broker(2), broker(3), topics={"t": [partition(1, 2, 3), partition(2, 1, 3)]},
    )  # fmt: skip
    after = registered(image, registration(1))
    led, followed = after.topics[topic_id(1)].partitions[0], after.topics[topic_id(1)].partitions[1]
    assert (led.leader, led.isr, led.leader_epoch, led.elr) == (2, ids(2, 3), 1, ())
    assert (followed.leader, followed.isr, followed.leader_epoch) == (2, ids(2, 3), 0)
    assert after.brokers[BrokerId(1)].state is FENCED


def test_the_only_replica_in_sync_stays_eligible_and_leads_nothing_until_it_is_ready() -> None:
    image = image_with(broker(1), broker(2), topics={"t": [partition(1, 2, isr=[1], leader_epoch=4)]})
    after = first_partition(registered(image, registration(1)))
    assert (after.leader, after.isr, after.elr, after.leader_epoch) == (None, (), (replica(1),), 5)


def test_a_clean_stop_changes_nothing_of_that() -> None:
    image = image_with(broker(1, epoch=7), broker(2), topics={"t": [partition(1, 2)]})
    after = first_partition(registered(image, registration(1, clean_epoch=BrokerEpoch(7))))
    assert (after.leader, after.isr, after.elr) == (2, ids(2), (replica(1),))


@pytest.mark.parametrize(
    ("flush_mode", "boot_id", "clean_epoch", "is_still_eligible"),
    [
        ("os", "another boot", None, False),  # power failed: the page cache is gone
        ("os", "another boot", 6, False),  # the marker is of an earlier life
        ("os", "another boot", 7, True),  # stopped in an orderly way, then rebooted
        ("os", "boot", None, True),  # killed: the page cache survived
        ("fsync", "another boot", None, True),  # what was acknowledged was on the disk
    ],
)
def test_only_what_trusted_a_page_cache_that_is_gone_loses_its_eligibility(
    flush_mode: str, boot_id: str, clean_epoch: int | None, is_still_eligible: bool
) -> None:
    image = image_with(
        broker(1, epoch=7, boot_id="boot"),
        broker(2),
        topics={"t": [partition(1, 2)]},
        topic_configs={"t": {"flush.mode": flush_mode}},
    )
    request = registration(1, boot_id=boot_id, clean_epoch=clean_epoch)
    after = first_partition(registered(image, request))
    assert after.leader == 2
    assert after.elr == ((replica(1),) if is_still_eligible else ())


def test_a_broker_that_was_eligible_only_and_lost_its_memory_is_so_no_longer() -> None:
    image = image_with(
        broker(1, state=FENCED),
        broker(2),
        topics={"t": [partition(1, 2, isr=[2], elr=[1])]},
        topic_configs={"t": {"flush.mode": "os"}},
    )
    after = first_partition(registered(image, registration(1, boot_id="another")))
    assert after.elr == ()


@pytest.mark.parametrize(("flush_mode", "is_still_eligible"), [("os", False), ("fsync", True)])
def test_a_directory_that_was_away_may_have_lost_what_trusted_the_page_cache(
    flush_mode: str, is_still_eligible: bool
) -> None:
    """The machine was rebooted while it was: the broker's boot is the same as that of its last registration."""
    image = image_with(
        broker(1, epoch=7, directories=[directory(1, 1)]),
        broker(2),
        topics={"t": [partition(1, 2, isr=[2], elr=[1])]},
        topic_configs={"t": {"flush.mode": flush_mode}},
    )
    for clean_epoch in (None, BrokerEpoch(7)):
        request = registration(1, directories=(directory(1, 0), directory(1, 1)), clean_epoch=clean_epoch)
        after = first_partition(registered(image, request))
        assert after.elr == ((replica(1),) if is_still_eligible else ())


def test_what_is_in_a_directory_that_stays_away_is_judged_when_it_comes_back() -> None:
    image = image_with(
        broker(1, epoch=7, directories=[directory(1, 1)]),
        broker(2),
        topics={"t": [partition(1, 2, isr=[2], elr=[1])]},
        topic_configs={"t": {"flush.mode": "os"}},
    )
    image = registered(image, registration(1, directories=(directory(1, 1),), boot_id="another boot"))
    assert first_partition(image).elr == (replica(1),)
    again = registration(1, incarnation=UUID(int=5), directories=(directory(1, 0),), boot_id="another boot")
    assert first_partition(registered(image, again)).elr == ()


def test_a_wiped_broker_keeps_the_claim_of_the_disk_it_lost() -> None:
    image = image_with(broker(1), broker(2), topics={"t": [partition(1, 2, isr=[1])]})
    after = first_partition(registered(image, registration(1, directories=(directory(1, 5),))))
    assert after.elr == (replica(1),)  # tied to the directory that is away


def test_epochs_are_not_used_again_after_a_broker_is_forgotten() -> None:
    image = image_with(broker(1, epoch=3))
    image.last_broker_epoch = BrokerEpoch(12)
    assert decide(image, registration(2)).answer == 13


def test_a_second_process_with_other_directories_is_refused_while_the_first_lives() -> None:
    image = image_with(broker(1))
    stranger = registration(1, directories=(directory(1, 9),))
    with pytest.raises(ControllerError, match="node_id of its own") as refused:
        decide(image, stranger, is_old_alive=True)
    assert refused.value.code == errors_pb2.DUPLICATE_BROKER
    assert refused.value.retriable
    assert registered(image, stranger).brokers[BrokerId(1)].directories == (directory(1, 9),)


def test_who_has_one_of_the_directories_has_outlived_the_process_before() -> None:
    image = image_with(broker(1, directories=2))
    request = registration(1, directories=(directory(1, 1), directory(1, 7)))
    assert decide(image, request, is_old_alive=True).records


# -- requests that come late


def refused_as_stale(image: ClusterImage, request: Registration, *, previous_epoch: int | None) -> None:
    """Whether or not the process that is there is heard of."""
    before = image.copy()
    epoch = BrokerEpoch(previous_epoch) if previous_epoch is not None else None
    for is_old_alive in (True, False):
        with pytest.raises(ControllerError, match="asks for the latest epoch again") as refused:
            register(image, request, previous_epoch=epoch, is_old_alive=is_old_alive)
        assert refused.value.code == errors_pb2.STALE_BROKER_EPOCH
        assert not refused.value.retriable
        assert not refused.value.outcome_unknown
    assert image == before


@pytest.mark.parametrize("is_first", [True, False])
def test_what_a_dead_process_asked_for_does_not_replace_its_successor(is_first: bool) -> None:
    """Both had asked for the latest epoch while it was the same."""
    image = image_with(broker(2)) if is_first else image_with(broker(1, epoch=7), broker(2))
    previous_epoch = latest_epoch(image, BrokerId(1))
    image = registered(image, registration(1))
    late = registration(1, incarnation=UUID(int=5))
    refused_as_stale(image, late, previous_epoch=previous_epoch)
    assert image.brokers[BrokerId(1)].incarnation == INCARNATION


def test_a_process_whose_dead_predecessor_comes_in_between_asks_again() -> None:
    image = image_with(broker(1, epoch=7))
    image = registered(image, registration(1, incarnation=UUID(int=5)))
    refused_as_stale(image, registration(1), previous_epoch=7)
    image = registered(image, registration(1))
    assert image.brokers[BrokerId(1)].incarnation == INCARNATION


def test_a_process_that_missed_its_answer_is_recognised_by_either_epoch() -> None:
    """It sends the same again, or has asked for the latest epoch anew, which is its own by then."""
    image = image_with(broker(1, epoch=7))
    own = decide(image, registration(1))
    image = apply(image, own)
    for previous_epoch in (BrokerEpoch(7), own.answer):
        again = register(image, registration(1), previous_epoch=previous_epoch, is_old_alive=True)
        assert (again.records, again.answer) == ((), own.answer)


def test_a_late_copy_of_its_own_request_does_not_replace_a_process_that_has_lost_a_directory() -> None:
    both = (directory(1, 0), directory(1, 1))
    image = registered(image_with(), registration(1, directories=both))
    epoch = image.brokers[BrokerId(1)].epoch
    image = apply(image, report_failures(image, BrokerId(1), epoch, [directory(1, 0)], []))
    assert image.brokers[BrokerId(1)].directories == (directory(1, 1),)
    refused_as_stale(image, registration(1, directories=both), previous_epoch=None)


def test_a_broker_that_lost_all_its_disks_registers_after_its_last_epoch_like_any_other() -> None:
    image = image_with(broker(1, epoch=7), broker(2, epoch=9))
    wiped = registration(1, directories=(directory(1, 5),))
    refused_as_stale(image, wiped, previous_epoch=None)
    after = registered(image, wiped).brokers[BrokerId(1)]
    assert (after.epoch, after.directories) == (10, (directory(1, 5),))


def test_after_a_broker_was_forgotten_only_who_knows_of_that_registers() -> None:
    image = image_with(broker(1, epoch=7, state=FENCED))
    image = apply(image, unregister_broker(image, BrokerId(1)))
    refused_as_stale(image, registration(1), previous_epoch=7)
    assert registered(image, registration(1)).brokers[BrokerId(1)].epoch == 8


# -- requests that make no sense


@pytest.mark.parametrize(
    ("changes", "part_of_message"),
    [
        ({"broker_id": -1}, "broker id -1"),
        ({"broker_id": 2**31}, "not between"),
        ({"address": ""}, "host:port"),
        ({"address": "host"}, "host:port"),
        ({"address": "host:0"}, "host:port"),
        ({"address": "host:70000"}, "host:port"),
        ({"address": "a b:1"}, "host:port"),
        ({"nodes_address": "host"}, "host:port"),
        ({"nodes_address": ""}, "host:port"),
        ({"rack": ""}, "rack"),
        ({"rack": "r" * 256}, "rack"),
        ({"version": ""}, "a version has"),
        ({"version": "1" * 65}, "a version has"),
        ({"boot_id": "b" * 65}, "boot id"),
        ({"directories": ()}, "1 to 64 data directories, not 0"),
        ({"directories": tuple(directory(1, number) for number in range(65))}, "not 65"),
        ({"directories": (directory(1), directory(1))}, "same id"),
        ({"directories": (directory(2),)}, "belongs to broker 2"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_cause(changes: dict[str, object], part_of_message: str) -> None:
    image = image_with(broker(2))
    with pytest.raises(ControllerError, match=part_of_message) as refused:
        decide(image, replace(registration(1), **changes))  # type: ignore[arg-type]
    assert refused.value.code == errors_pb2.INVALID_REQUEST


@pytest.mark.parametrize("address", ["localhost:9092", "10.0.0.1:1", "[::1]:65535", "node-1.cluster.local:9092"])
def test_addresses_of_every_kind_are_taken(address: str) -> None:
    assert decide(image_with(), registration(1, address=address)).records


@pytest.mark.parametrize(("least", "most"), [(0, 2), (4, 9)])
def test_a_program_of_another_age_is_refused(least: int, most: int) -> None:
    image = image_with()
    image.feature_level = 3
    request = registration(1, min_feature_level=least, max_feature_level=most)
    with pytest.raises(ControllerError, match="feature level 3") as refused:
        decide(image, request)
    assert refused.value.code == errors_pb2.UNSUPPORTED_FEATURE_LEVEL


def test_a_live_broker_registering_anew_is_fenced_by_it() -> None:
    image = image_with(broker(1, state=ACTIVE))
    assert registered(image, registration(1), is_old_alive=True).brokers[BrokerId(1)].state is FENCED


def test_nobody_registers_before_the_cluster_has_a_feature_level() -> None:
    with pytest.raises(ControllerError, match="try again") as refused:
        decide(ClusterImage(), registration(1))
    assert refused.value.code == errors_pb2.UNAVAILABLE
