"""Rules of the metadata, each broken on purpose."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from support.metadata_chaos import (
    LateRegistration,
    LateRequest,
)

from lograft.metadata.controller.active_controller import ActiveController, Committed
from lograft.metadata.controller.pending_operations import PendingOperations
from lograft.metadata.controller.services import admin_service
from lograft.metadata.decisions import alter_configs
from lograft.metadata.decisions.brokers import fencing as broker_states
from lograft.metadata.decisions.brokers import registration
from lograft.metadata.decisions.brokers import report_failures as failures
from lograft.metadata.decisions.brokers.registration import Registration
from lograft.metadata.decisions.decision import Decide
from lograft.metadata.decisions.partitions import alter_isr as alter_partition
from lograft.metadata.decisions.partitions import reassignment
from lograft.metadata.decisions.partitions.alter_isr import Alteration, IsrMember
from lograft.metadata.decisions.partitions.leave_isr import leave_isrs
from lograft.metadata.image import partition_transition as partition_change
from lograft.metadata.image.broker import Broker, BrokerState
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.delta_buffer import Delta, DeltaBuffer
from lograft.metadata.image.partition import BrokerId, Partition, Replica
from lograft.metadata.image.partition_transition import Conditions
from lograft.metadata.image.records import PartitionChanged, Record
from lograft.metadata.image.snapshot import encode_snapshot
from lograft.metadata.quorum_view import Quorum
from lograft.rpc.coded_error import ControllerError

# -- brokers


def fence_without_leaving(patch: pytest.MonkeyPatch) -> None:
    original = broker_states._fencing

    def fencing(image: ClusterImage, broker: Broker) -> tuple[Record, ...]:
        return original(image, broker)[:1]

    patch.setattr(broker_states, "_fencing", fencing)


def register_without_leaving(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(registration, "_departures", lambda image, broker, distrusted, stale: iter(()))


def keep_the_broker_epoch(patch: pytest.MonkeyPatch) -> None:
    original = registration.register

    def register(image: ClusterImage, request: Registration, **others: Any) -> Any:
        old = image.brokers.get(request.broker_id)
        decision = original(image, request, **others)
        if old is None or not decision.records:
            return decision
        first = decision.records[0]
        same = replace(first, broker=replace(first.broker, epoch=old.epoch))  # type: ignore[arg-type]
        return replace(decision, records=(same, *decision.records[1:]), answer=old.epoch)

    patch.setattr("lograft.metadata.controller.services.internal_service.register", register)


def trust_the_page_cache_after_a_power_failure(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(registration, "_distrusted", lambda old, request: ())


def elect_who_lost_its_disk(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Conditions, "has_directory", lambda conditions, broker_id, directory_id: True)


def register_whoever_asks(patch: pytest.MonkeyPatch) -> None:
    """As if each had asked for the latest epoch just now."""
    patch.setattr(registration, "_check_latest", lambda image, broker_id, previous_epoch: None)


# -- partitions


def forget_the_eligible(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(partition_change, "_elr", lambda *arguments: ())


def keep_the_leader_epoch(patch: pytest.MonkeyPatch) -> None:
    original = partition_change._with_epochs

    def with_epochs(before: Partition, after: Partition) -> Partition:
        return replace(original(before, after), leader_epoch=before.leader_epoch)

    patch.setattr(partition_change, "_with_epochs", with_epochs)


def let_the_minimum_change_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(alter_configs, "_settled", lambda image, resource, value: iter(()))


def elect_anybody_alive(patch: pytest.MonkeyPatch) -> None:
    """As if every topic allowed unclean elections, and they were clean."""

    def eligible(before: Partition, wanted: Partition, dropped: object) -> list[Replica]:
        return list(wanted.replicas)

    patch.setattr(partition_change, "_eligible", eligible)


def _without_check(patch: pytest.MonkeyPatch, change: Callable[[Partition, Alteration], Alteration]) -> None:
    """Take the request for another one, which passes a check that it should not."""
    original = alter_partition._alter

    def alter(image: ClusterImage, broker_id: BrokerId, alteration: Alteration) -> Partition:
        before = image.partition(alteration.topic_id, alteration.number)
        if before is not None and before.leader == broker_id:
            alteration = change(before, alteration)
        return original(image, broker_id, alteration)

    patch.setattr(alter_partition, "_alter", alter)


def ignore_the_partition_epoch(patch: pytest.MonkeyPatch) -> None:
    _without_check(patch, lambda before, asked: replace(asked, partition_epoch=before.partition_epoch))


def ignore_the_broker_epoch(patch: pytest.MonkeyPatch) -> None:
    """Nor is what its process asked for before made void by another partition epoch."""
    _leave_epochs_alone(patch, "lograft.metadata.decisions.brokers.registration.leave_isrs")
    original = alter_partition._check_member

    def check_member(image: ClusterImage, before: Partition, member: IsrMember, alteration: Alteration) -> None:
        broker = image.brokers.get(member.broker_id)
        epoch = broker.epoch if broker is not None else member.broker_epoch
        original(image, before, replace(member, broker_epoch=epoch), alteration)

    patch.setattr(alter_partition, "_check_member", check_member)


def _leave_epochs_alone(patch: pytest.MonkeyPatch, used_as: str) -> None:
    """A partition that does not change otherwise keeps its epoch."""

    def leave(image: ClusterImage, *arguments: Any, **options: Any) -> Iterator[PartitionChanged]:
        for change in leave_isrs(image, *arguments, **options):
            before = image.partition(change.topic_id, change.number)
            assert before is not None
            if replace(change.partition, partition_epoch=before.partition_epoch) != before:
                yield change

    patch.setattr(used_as, leave)


def let_the_fenced_join(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(alter_partition, "_check_member", lambda image, before, member, alteration: None)
    patch.setattr(Conditions, "is_live", lambda conditions, broker_id: True)


def finish_before_in_sync(patch: pytest.MonkeyPatch) -> None:
    original = reassignment.complete_if_due

    def complete(image: ClusterImage, topic_id: Any, before: Partition, settled: Partition, *others: Any) -> Partition:
        in_sync = tuple(broker for broker in settled.isr if broker in settled.target)
        if settled.is_reassigning and in_sync:
            settled = replace(settled, adding=())
        return original(image, topic_id, before, settled, *others)

    for module in (reassignment, alter_partition):
        patch.setattr(module, "complete_if_due", complete)


def leave_the_corrupt_where_it_is(patch: pytest.MonkeyPatch) -> None:
    """Its data counts on as far as an election goes."""
    original = failures.leave_isrs  # type: ignore[attr-defined]

    def leave_isrs(*arguments: Any, is_data_lost: bool = False) -> Iterator[PartitionChanged]:
        return original(*arguments)

    patch.setattr(failures, "leave_isrs", leave_isrs)


def keep_the_epoch_of_what_does_not_count(patch: pytest.MonkeyPatch) -> None:
    """What was corrupt, and out of the ISR, is taken back by what it had before."""
    _leave_epochs_alone(patch, "lograft.metadata.decisions.brokers.report_failures.leave_isrs")


# -- the controller


def answer_before_it_is_committed(patch: pytest.MonkeyPatch) -> None:
    original = ActiveController.submit

    async def submit(controller: ActiveController, decide: Decide[Any]) -> Committed[Any]:
        if controller.is_active and controller._group is not None:
            early = decide(controller.image.copy())
            controller._group.create_task(_ignore(original(controller, decide)))
            return Committed(early.answer, controller._machine.index)
        return await original(controller, decide)

    patch.setattr(ActiveController, "submit", submit)


async def _ignore(submitted: Any) -> None:
    with contextlib.suppress(ControllerError):
        await submitted


def keep_plans_after_the_office(patch: pytest.MonkeyPatch) -> None:
    """Who is elected again goes on from where it was."""
    original = ActiveController.leadership_taken
    plans: dict[int, PendingOperations] = {}

    def leadership_taken(controller: ActiveController, term: int) -> None:
        original(controller, term)
        assert controller._office is not None
        before = plans.get(id(controller))
        if before is not None:
            controller._office._image = before._image
            controller._office._chain = before._chain
        plans[id(controller)] = controller._office

    patch.setattr(ActiveController, "leadership_taken", leadership_taken)


def give_each_attempt_an_id_of_its_own(patch: pytest.MonkeyPatch) -> None:
    original = admin_service.decide_create  # type: ignore[attr-defined]

    def decide_create(image: ClusterImage, item: Any, *others: Any) -> Any:
        anonymous = type(item).FromString(item.SerializeToString())
        anonymous.topic_id = b""
        return original(image, anonymous, *others)

    patch.setattr(admin_service, "decide_create", decide_create)


def read_what_is_here(patch: pytest.MonkeyPatch) -> None:
    """Without asking who leads."""

    async def latest_index(quorum: Quorum) -> int:
        return quorum.status().applied_index

    patch.setattr(Quorum, "latest_index", latest_index)


# -- the replicas of the metadata


def skip_a_change(patch: pytest.MonkeyPatch) -> None:
    original = DeltaBuffer.since

    def since(buffer: DeltaBuffer, index: int, max_bytes: int | None = None) -> list[Delta] | None:
        return original(buffer, index + 1, max_bytes)

    patch.setattr(DeltaBuffer, "since", since)


def forget_what_was_deleted(patch: pytest.MonkeyPatch) -> None:
    def encode(image: ClusterImage) -> bytes:
        other = image.copy()
        other.deleted_topics = {}
        return encode_snapshot(other)

    patch.setattr("lograft.metadata.image.state_machine.encode_snapshot", encode)


# -- a request that comes late


async def lose_power(story: LateRequest) -> None:
    """Who is to join loses what it had, and is back, as another process, but not in sync."""
    story.cluster.cut(story.leader.host, story.third.host)
    story.third.kill()
    story.third.disks.lose_power()
    story.third.disks.directories[0].logs[story.key].truncate(0)  # nothing of it had come to the disk
    story.third.start()
    await story.until(lambda: story.image.brokers[story.third.broker_id].state is BrokerState.ACTIVE)
    await story.arrive()


async def be_away(story: LateRequest) -> None:
    """Another member is taken for dead for a moment, and misses what is acknowledged without it."""
    other, cluster = story.other, story.cluster
    cluster.cut(story.leader.host, other.host)
    await story.lose_session(other)
    acknowledged = len(cluster.ledger.acknowledged[story.key])
    cluster.network.heal(other.host, cluster.quorum[0].host)
    await story.until(lambda: story.image.brokers[other.broker_id].state is BrokerState.ACTIVE)
    await story.until(lambda: len(cluster.ledger.acknowledged[story.key]) > acknowledged)
    await story.arrive()


async def fall_silent(story: LateRequest) -> None:
    """Who is to join is taken for dead."""
    await story.lose_session(story.third)
    await story.arrive()


async def rot(story: LateRequest) -> None:
    """Who is to join finds out that what it has is corrupt, and begins anew."""
    stub, directory = story.third.stub, story.third.disks.directories[0]
    assert stub is not None
    story.cluster.cut(story.leader.host, story.third.host)
    stub.rot(story.key, directory.logs[story.key])
    await story.until(lambda: not directory.logs[story.key].is_corrupt)
    await story.arrive()


# -- a registration that comes after its successors


async def be_left_alone(story: LateRegistration) -> None:
    """The process that lives keeps its place, and comes to be in sync."""
    epoch = story.epoch
    await story.arrive()
    assert story.epoch == epoch
    await story.until(lambda: story.third.broker_id in story.partition.isr)
