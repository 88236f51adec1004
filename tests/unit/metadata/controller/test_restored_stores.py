"""The store of a controller is copied, used further, and the copy put back: it takes no part in the quorum, for it has
forgotten what it promised."""

from collections.abc import Awaitable, Callable

import pytest
from support.controller_nodes import ControllerHost, ControllerNodes, controllers
from support.fake_controllers import until
from support.virtual_log import virtual

from lograft.chaos.world.raft_store import Content
from lograft.metadata.decisions.decision import Decision
from lograft.metadata.image.records import ProducerIdsAllocated
from lograft.raft.bootstrap.start_register import StartRegister


async def write(cluster: ControllerNodes, next_id: int) -> None:
    """Something that is committed, and must stay so."""
    active = await leader(cluster)
    await active.node.active.submit(lambda image: Decision((ProducerIdsAllocated(next_id),), None))


async def leader(cluster: ControllerNodes) -> ControllerHost:
    found: list[ControllerHost] = []

    def is_there() -> bool:
        found[:] = [host for host in cluster.hosts.values() if host.is_active]
        return len(found) == 1

    await until(is_there)
    return found[0]


async def copied_and_used(cluster: ControllerNodes, host: ControllerHost) -> Content:
    """A copy of its store, which is in use again."""
    await host.stop()
    copy = host.disk.content
    await host.start()
    await cluster.active()
    await write(cluster, 1000)
    await cluster.until_all(lambda node: node.machine.image.next_producer_id == 1000)
    return copy


async def put_back(host: ControllerHost, copy: Content) -> None:
    await host.kill()
    host.disk.content = copy
    await host.start()


@virtual
async def test_a_store_from_the_past_is_refused_and_says_so() -> None:
    async with controllers() as cluster:
        one = (await cluster.standbys())[0]
        await put_back(one, await copied_and_used(cluster, one))
        await until(lambda: one.node.outdated_reason is not None)
        assert f"lograft quorum replace {one.node_id}" in (one.node.outdated_reason or "")
        await write(cluster, 2000)  # the others go on
        for host in cluster.hosts.values():
            if host is not one:
                refusal = host.node._transport.refusal_of(one.disk.content.identity.member)
                assert refusal is not None
                assert "from the past" in refusal
        assert one.node.machine.image.next_producer_id < 1000
        for _ in range(4):  # it is not accepted for having been started often enough
            await one.kill()
            await one.start()
            await until(lambda: one.node.outdated_reason is not None)


async def lose_what_the_copy_forgot(cluster: ControllerNodes) -> None:
    """Of three, one was away when something was committed, and another comes back from before."""
    first = await cluster.active()
    restored, away = await cluster.standbys()
    copy = await copied_and_used(cluster, restored)
    await away.kill()
    await write(cluster, 2000)
    await first.kill()
    await put_back(restored, copy)
    await away.start()
    await until(lambda: restored.node.outdated_reason is not None or restored.is_active or away.is_active)
    assert not restored.is_active
    assert not away.is_active
    await first.start()
    assert (await leader(cluster)).node.machine.image.next_producer_id == 2000


Story = Callable[[ControllerNodes], Awaitable[None]]


@virtual
async def test_a_store_from_the_past_does_not_vote_for_who_lacks_what_it_has_forgotten() -> None:
    async with controllers() as cluster:
        await lose_what_the_copy_forgot(cluster)


def test_without_the_register_what_was_committed_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the story above is about it."""

    async def admit_all(*_: object) -> None:
        pass

    monkeypatch.setattr(StartRegister, "admit", admit_all)
    with pytest.raises(AssertionError):
        test_a_store_from_the_past_does_not_vote_for_who_lacks_what_it_has_forgotten()


@virtual
async def test_all_stores_put_back_from_one_moment_work() -> None:
    async with controllers() as cluster:
        await write(cluster, 1000)
        for host in cluster.hosts.values():
            await host.stop()
        copies = {host: host.disk.content for host in cluster.hosts.values()}
        for _ in range(2):
            for host in cluster.hosts.values():
                await host.start()
            await write(cluster, 2000)
            for host in cluster.hosts.values():
                await host.kill()
        for host, copy in copies.items():
            host.disk.content = copy
            await host.start()
        active = await cluster.active()
        assert active.node.machine.image.next_producer_id == 1000
        assert all(host.node.outdated_reason is None for host in cluster.hosts.values())


@virtual
async def test_ordinary_restarts_are_never_refused() -> None:
    async with controllers() as cluster:
        for round_ in range(6):
            for host in cluster.hosts.values():
                await (host.kill() if round_ % 2 else host.stop())
                await host.start()
                await cluster.active()
        for host in cluster.hosts.values():
            await host.kill()
        for host in cluster.hosts.values():
            await host.start()
        await cluster.active()
        assert all(host.node.outdated_reason is None for host in cluster.hosts.values())
        assert all(not host.node._transport.register.refused for host in cluster.hosts.values())
