"""Which connections are ended when an address has too many: the latest, and nobody else's."""

import asyncio
import contextlib
import os
import socket
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lograft.runtime.connection_guard import ConnectionCensus, ConnectionGuard
from lograft.runtime.network import ConnectionLimits

LIMITS = ConnectionLimits(total=100, per_address=3)


def test_the_latest_of_an_address_go() -> None:
    census = ConnectionCensus(LIMITS)
    assert census.update([(1, "a"), (2, "a"), (3, "b")]) == []
    assert census.update([(1, "a"), (2, "a"), (3, "b"), (4, "a"), (5, "a"), (6, "a")]) == [5, 6]
    assert census.refused == 2
    assert census.update([(1, "a"), (2, "a"), (4, "a"), (7, "b")]) == []
    assert census.counts() == {"a": 3, "b": 1}


def test_an_inode_that_another_connection_has_now_is_a_new_one() -> None:
    census = ConnectionCensus(LIMITS)
    census.update([(1, "a"), (2, "b"), (3, "b"), (4, "b")])
    assert census.update([(1, "b"), (2, "b"), (3, "b"), (4, "b")]) == [1]


@given(st.lists(st.lists(st.tuples(st.integers(0, 30), st.sampled_from("abc")), max_size=30), max_size=8))
def test_no_address_keeps_more_than_it_may_and_none_loses_what_it_may_have(rounds: list[list[tuple[int, str]]]) -> None:
    census = ConnectionCensus(LIMITS)
    for found in rounds:
        unique = dict(found)
        surplus = census.update(unique.items())
        for host in "abc":
            had = sum(other == host for other in unique.values())
            ended = sum(unique[inode] == host for inode in surplus)
            assert had - ended == min(had, LIMITS.per_address)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listening:
        yield listening


def connect(listening: socket.socket, count: int) -> tuple[list[socket.socket], list[socket.socket]]:
    clients, accepted = [], []
    for _ in range(count):
        clients.append(socket.create_connection(listening.getsockname()))
        accepted.append(listening.accept()[0])
    return clients, accepted


def is_ended(client: socket.socket) -> bool:
    client.setblocking(False)
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False


def test_sockets_of_the_port_are_ended_and_no_others(listener: socket.socket) -> None:
    async def main() -> None:
        port = listener.getsockname()[1]
        other = socket.create_server(("127.0.0.1", 0))
        others, others_accepted = connect(other, 5)
        clients, accepted = connect(listener, 3)
        guard = ConnectionGuard(f"127.0.0.1:{port}", LIMITS, lambda: 0.0)
        assert guard.look() == 0
        assert guard.open == 3
        before = len(os.listdir("/dev/fd"))
        more, more_accepted = connect(listener, 2)
        assert guard.look() == 2
        assert [is_ended(client) for client in (*clients, *more)] == [False] * 3 + [True] * 2
        assert not any(map(is_ended, others))
        for each in (*more, *more_accepted):
            each.close()
        assert len(os.listdir("/dev/fd")) == before, "nothing is left open"
        assert guard.look() == 0
        assert (guard.open, guard.refused) == (3, 2)
        for each in (*clients, *accepted, *others, *others_accepted, other):
            each.close()

    asyncio.run(main())


def test_it_is_said_once_in_a_while(listener: socket.socket, caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    guard = ConnectionGuard(f"127.0.0.1:{listener.getsockname()[1]}", LIMITS, lambda: now)
    for at in (0.0, 5.0, 11.0):
        now = at
        clients, accepted = connect(listener, 5)
        guard.look()
        for each in (*clients, *accepted):
            each.close()
    said = [record.getMessage() for record in caplog.records if "connections_refused" in record.getMessage()]
    assert len(said) == 2
    assert "ended=2" in said[0]
    assert "ended=4" in said[1], "with those that nothing was said of"
    assert "most_from='127.0.0.1'" in said[0]
