"""A leader that finds out, without writing, whether another leads by now."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from support.led_replicas import ONE, THREE, TWO, led
from support.metadata_images import ids
from support.replica_brokers import Metadata, append, until
from support.virtual_log import virtual

from lograft.broker.replica.leader_role import LeaderRole
from lograft.broker.replica.replica import Replica
from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ReplicaError

TIMEOUT_MS = 10_000


def confirm(leader: Replica, timeout_ms: int = TIMEOUT_MS) -> "asyncio.Task[bool]":
    return asyncio.ensure_future(leader.confirm_leads(leader.leader_epoch, timeout_ms))


async def code_of(asked: "asyncio.Task[bool]") -> int:
    with pytest.raises(ReplicaError) as refused:
        await asked
    return refused.value.code


@virtual
async def test_it_is_confirmed_by_all_in_sync_and_nothing_is_written() -> None:
    brokers, topic, leader = await led(Metadata())
    await append(leader).outcome()
    assert all(await asyncio.gather(*(confirm(leader) for _ in range(20))))
    brokers[THREE].sink.stop()
    asked = confirm(leader)
    await asyncio.sleep(1)
    assert not asked.done()
    brokers[THREE].sink.start()
    assert await asked
    assert leader.log_end == brokers[TWO].replica(topic).log_end == 1


@virtual
async def test_one_that_is_gone_is_waited_for_until_it_has_left_the_isr() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led(metadata)
    brokers[THREE].kill()
    asked = confirm(leader)
    await asyncio.sleep(1)
    assert not asked.done()
    metadata.fence(THREE)
    assert await asked
    assert metadata.partition(topic).isr == ids(1, 2)


@virtual
async def test_a_leader_that_was_replaced_and_has_not_heard_of_it_cannot_confirm() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led(metadata)
    brokers[ONE].view.hold()
    metadata.fence(ONE)
    await brokers[TWO].leads(topic)
    asked = confirm(leader)
    await asyncio.sleep(1)
    assert not asked.done()
    brokers[ONE].view.release()
    assert await code_of(asked) in (errors_pb2.NOT_LEADER, errors_pb2.FENCED_LEADER_EPOCH)


@virtual
async def test_what_nobody_answers_is_given_up_in_time() -> None:
    brokers, _, leader = await led(Metadata())
    brokers[THREE].sink.stop()
    began = asyncio.get_running_loop().time()
    assert await code_of(confirm(leader, 2000)) == errors_pb2.TIMED_OUT
    assert 2 <= round(asyncio.get_running_loop().time() - began, 6) < 3


@virtual
async def test_below_the_minimum_it_is_refused_as_a_write_is() -> None:
    metadata = Metadata()
    _, _, leader = await led(metadata)
    waiting = confirm(leader)
    for broker_id in (TWO, THREE):
        metadata.fence(broker_id)
    assert await code_of(waiting) == errors_pb2.NOT_ENOUGH_REPLICAS
    assert await code_of(confirm(leader)) == errors_pb2.NOT_ENOUGH_REPLICAS


@virtual
async def test_a_leader_that_is_the_only_replica_knows_at_once() -> None:
    _, _, leader = await led(Metadata(), 1)
    began = asyncio.get_running_loop().time()
    assert await confirm(leader)
    assert asyncio.get_running_loop().time() == began


@virtual
async def test_it_is_not_found_out_from_who_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker of an earlier version follows, and is in sync."""
    metadata = Metadata()
    brokers, topic, leader = await led(metadata)
    subscribe = LeaderRole.subscribe

    async def as_an_earlier_version(role: LeaderRole, subscriber: Any, request: Any, listener: Any) -> Any:
        return await subscribe(role, subscriber, replace(request, answers_barriers=False), listener)

    brokers[THREE].sink.stop()
    waiting = confirm(leader)
    await asyncio.sleep(0.1)
    assert not waiting.done()
    monkeypatch.setattr(LeaderRole, "subscribe", as_an_earlier_version)
    await brokers[THREE].stop()
    await brokers[THREE].start()
    await until(lambda: metadata.partition(topic).isr == ids(1, 2, 3))
    assert await waiting in (True, False)
    assert await confirm(leader) is False
    metadata.fence(THREE)
    assert await confirm(leader) is True
