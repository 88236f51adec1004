"""A follower serves readers while it is in sync, and what is committed as far as it knows."""

from collections.abc import Callable

import pytest
from support.metadata_images import ids
from support.replica_brokers import Metadata, TestBroker, append, place, start_brokers, until
from support.virtual_log import virtual

from lograft.broker.replica.replica import Replica
from lograft.metadata.image.partition import BrokerId, TopicId
from lograft.proto import errors_pb2
from lograft.proto.errors_pb2 import ErrorCode
from lograft.rpc.coded_error import ReplicaError

ONE, TWO, THREE = ids(1, 2, 3)


async def following(metadata: Metadata) -> tuple[dict[BrokerId, TestBroker], TopicId, Replica, Replica]:
    """Broker 1 leads, with three records that broker 2 knows to be committed."""
    brokers = await start_brokers(metadata, 3)
    topic = metadata.create("orders", place(metadata, 1, 2, 3))
    leader = await brokers[ONE].leads(topic)
    await append(leader, 3).outcome()
    follower = brokers[TWO].replica(topic)
    await until(lambda: follower.high_watermark == 3)
    return brokers, topic, leader, follower


def refusal(replica: Replica, leader_epoch: int | None = None, *, from_follower: bool = True) -> ErrorCode | None:
    try:
        replica.check_serves(leader_epoch, from_follower=from_follower)
    except ReplicaError as error:
        return error.code
    return None


@virtual
async def test_who_is_in_sync_serves_what_it_knows_to_be_committed() -> None:
    brokers, _, leader, follower = await following(Metadata())
    assert refusal(follower) is None
    assert refusal(follower, from_follower=False) == errors_pb2.NOT_LEADER
    assert (await follower.read(0, 1000)).next_offset == 3
    assert not follower.watermark_is_known, "the leader may have told of more"
    brokers[THREE].sink.stop()
    append(leader)
    await until(lambda: follower.log_end == 4)
    assert not (await follower.read(3, 1000)).buffers, "it is not committed"


@virtual
async def test_epochs_are_checked_as_by_leaders() -> None:
    _, _, leader, follower = await following(Metadata())
    assert refusal(follower, leader.leader_epoch) is None
    assert refusal(follower, leader.leader_epoch - 1) == errors_pb2.FENCED_LEADER_EPOCH
    assert refusal(follower, leader.leader_epoch + 1) == errors_pb2.UNKNOWN_LEADER_EPOCH


@virtual
async def test_a_reader_that_waits_is_woken_by_what_is_committed() -> None:
    _, _, leader, follower = await following(Metadata())
    woken: list[bool] = []
    follower.when_readable(3, lambda: woken.append(True))
    assert not woken
    await append(leader).outcome()
    await until(lambda: woken)
    assert (await follower.read(3, 1000)).next_offset == 4


def fence(metadata: Metadata, brokers: dict[BrokerId, TestBroker], topic: TopicId) -> None:
    metadata.fence(2)


def delete(metadata: Metadata, brokers: dict[BrokerId, TestBroker], topic: TopicId) -> None:
    brokers[TWO].replica(topic).take(None)


def lose_leader(metadata: Metadata, brokers: dict[BrokerId, TestBroker], topic: TopicId) -> None:
    role = brokers[TWO].replica(topic).role
    role.unsubscribed(role.core.state.number)  # type: ignore[arg-type]


@pytest.mark.parametrize("happens", [fence, delete, lose_leader])
@virtual
async def test_who_is_not_in_sync_any_more_sends_its_readers_away(
    happens: Callable[[Metadata, dict[BrokerId, TestBroker], TopicId], None],
) -> None:
    metadata = Metadata()
    brokers, topic, _, follower = await following(metadata)
    refusals: list[ErrorCode | None] = []
    follower.when_readable(3, lambda: refusals.append(refusal(follower)))
    happens(metadata, brokers, topic)
    await until(lambda: refusals)
    assert refusals[0] is not None
    with pytest.raises(ReplicaError):
        await follower.read(0, 1000)


@virtual
async def test_a_new_replica_serves_nobody_until_it_is_in_sync() -> None:
    metadata = Metadata()
    brokers = await start_brokers(metadata, 2)
    topic = metadata.create("orders", place(metadata, 1, 2, isr=[1]), min_insync_replicas="1")
    leader = await brokers[ONE].leads(topic)
    await append(leader, 3).outcome()
    follower = await brokers[TWO].opened(topic)
    seen: list[tuple[bool, bool]] = []
    for _ in range(100):
        seen.append((TWO in metadata.partition(topic).isr, refusal(follower) is None))
        await until(lambda: True)
        if seen[-1] == (True, True):
            break
    await until(lambda: refusal(follower) is None)
    assert (False, True) not in seen
