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

from lograft.metadata.broker import Broker
from lograft.metadata.errors import ControllerError
from lograft.metadata.image import ClusterImage
from lograft.metadata.partition import BrokerEpoch, BrokerId, Partition
from lograft.metadata.registration import Registration, register
from lograft.proto import errors_pb2

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


def registered(image: ClusterImage, request: Registration, *, is_old_alive: bool = False) -> ClusterImage:
    return apply(image, register(image, request, is_old_alive=is_old_alive))


def first_partition(image: ClusterImage) -> Partition:
    found = image.partition(topic_id(1), 0)
    assert found is not None
    return found


def test_a_new_broker_is_fenced_and_has_an_epoch_above_all_others() -> None:
    image = image_with(broker(1, epoch=5), broker(2, epoch=9))
    decision = register(image, registration(3, rack="a"), is_old_alive=False)
    added = apply(image, decision).brokers[BrokerId(3)]
    assert decision.answer == added.epoch == 10
    assert added.state is FENCED
    assert added.rack == "a"


def test_the_same_process_asking_again_keeps_its_epoch() -> None:
    image = image_with(broker(2))
    first = register(image, registration(1), is_old_alive=False)
    again = register(apply(image, first), registration(1), is_old_alive=True)
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
    assert register(image, registration(2), is_old_alive=False).answer == 13


def test_a_second_process_with_other_directories_is_refused_while_the_first_lives() -> None:
    image = image_with(broker(1))
    stranger = registration(1, directories=(directory(1, 9),))
    with pytest.raises(ControllerError, match="node_id of its own") as refused:
        register(image, stranger, is_old_alive=True)
    assert refused.value.code == errors_pb2.DUPLICATE_BROKER
    assert refused.value.retriable
    assert registered(image, stranger, is_old_alive=False).brokers[BrokerId(1)].directories == (directory(1, 9),)


def test_who_has_one_of_the_directories_has_outlived_the_process_before() -> None:
    image = image_with(broker(1, directories=2))
    request = registration(1, directories=(directory(1, 1), directory(1, 7)))
    assert register(image, request, is_old_alive=True).records


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
        ({"rack": ""}, "rack"),
        ({"rack": "r" * 256}, "rack"),
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
        register(image, replace(registration(1), **changes), is_old_alive=False)  # type: ignore[arg-type]
    assert refused.value.code == errors_pb2.INVALID_REQUEST


@pytest.mark.parametrize("address", ["localhost:9092", "10.0.0.1:1", "[::1]:65535", "node-1.cluster.local:9092"])
def test_addresses_of_every_kind_are_taken(address: str) -> None:
    assert register(image_with(), registration(1, address=address), is_old_alive=False).records


@pytest.mark.parametrize(("least", "most"), [(0, 2), (4, 9)])
def test_a_program_of_another_age_is_refused(least: int, most: int) -> None:
    image = image_with()
    image.feature_level = 3
    request = registration(1, min_feature_level=least, max_feature_level=most)
    with pytest.raises(ControllerError, match="feature level 3") as refused:
        register(image, request, is_old_alive=False)
    assert refused.value.code == errors_pb2.UNSUPPORTED_FEATURE_LEVEL


def test_a_live_broker_registering_anew_is_fenced_by_it() -> None:
    image = image_with(broker(1, state=ACTIVE))
    assert registered(image, registration(1), is_old_alive=True).brokers[BrokerId(1)].state is FENCED


def test_nobody_registers_before_the_cluster_has_a_feature_level() -> None:
    with pytest.raises(ControllerError, match="try again") as refused:
        register(ClusterImage(), registration(1), is_old_alive=False)
    assert refused.value.code == errors_pb2.UNAVAILABLE
