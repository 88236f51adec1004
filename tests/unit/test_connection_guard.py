"""Which connections are ended when an address has too many: the latest, and nobody else's."""

import asyncio
import contextlib
import os
import socket
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lograft.runtime.connection_guard import (
    ConnectionCensus,
    ConnectionGuard,
    UnreadBytes,
    _bytes_received,
    surplus_of,
)
from lograft.runtime.network import ConnectionLimits

LIMITS = ConnectionLimits(total=100, per_address=3)


def peers(*found: tuple[int, str]) -> list[tuple[int, tuple[str, int]]]:
    return [(inode, (host, 1000 + inode)) for inode, host in found]


def test_the_latest_of_an_address_go() -> None:
    census = ConnectionCensus(LIMITS)
    assert census.update(peers((1, "a"), (2, "a"), (3, "b"))) == []
    assert census.update(peers((1, "a"), (2, "a"), (3, "b"), (4, "a"), (5, "a"), (6, "a"))) == [5, 6]
    assert census.refused == 2
    assert census.update(peers((1, "a"), (2, "a"), (4, "a"), (7, "b"))) == []
    assert census.counts() == {"a": 3, "b": 1}


def test_an_inode_that_another_connection_has_now_is_a_new_one() -> None:
    census = ConnectionCensus(LIMITS)
    census.update(peers((1, "a"), (2, "b"), (3, "b"), (4, "b")))
    assert census.update(peers((1, "b"), (2, "b"), (3, "b"), (4, "b"))) == [1]


@given(st.lists(st.lists(st.tuples(st.integers(0, 30), st.sampled_from("abc")), max_size=30), max_size=8))
def test_no_address_keeps_more_than_it_may_and_none_loses_what_it_may_have(rounds: list[list[tuple[int, str]]]) -> None:
    census = ConnectionCensus(LIMITS)
    for found in rounds:
        unique = dict(found)
        surplus = census.update(peers(*unique.items()))
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


# -- what came, and nobody has received

MEBIBYTE = 1024 * 1024


def test_what_came_and_was_not_received_is_unread() -> None:
    unread = UnreadBytes()
    a, b = ("a", 1), ("b", 2)
    assert unread.update({a: 60 * MEBIBYTE, b: 2000}) == {a: pytest.approx(60 * MEBIBYTE, rel=0.02)}
    unread.received(a, 60 * MEBIBYTE)
    assert unread.update({a: 60 * MEBIBYTE + 50_000, b: 2000}) == {}
    assert unread.update({a: 90 * MEBIBYTE}) == {a: pytest.approx(30 * MEBIBYTE, rel=0.05)}
    unread.keep(set())
    assert unread.update({a: 30 * MEBIBYTE}) == {a: pytest.approx(30 * MEBIBYTE, rel=0.05)}, "another, on the same port"


def test_what_is_said_around_messages_is_no_message() -> None:
    """A connection that has carried a gigabyte has carried some megabytes more."""
    unread = UnreadBytes()
    unread.received(("a", 1), 1000 * MEBIBYTE)
    assert unread.update({("a", 1): 1009 * MEBIBYTE}) == {}


def test_those_with_the_most_are_ended_until_the_rest_fits() -> None:
    unread = {("a", 1): 50, ("b", 2): 30, ("c", 3): 25, ("d", 4): 5}
    assert surplus_of(unread, 200) == []
    assert surplus_of(unread, 60) == [("a", 1)]
    assert surplus_of(unread, 40) == [("a", 1), ("b", 2)]
    assert surplus_of(unread, 0) == list(unread)


def test_the_kernel_tells_what_a_connection_has_received(listener: socket.socket) -> None:
    (client,), (accepted,) = connect(listener, 1)
    client.sendall(bytes(100_000))
    received = 0
    while received < 100_000:
        received += len(accepted.recv(65536))
    peer, size = _bytes_received(accepted.fileno(), listener.getsockname()[1]) or (None, 0)
    assert peer == client.getsockname()
    assert size == 100_000
    assert _bytes_received(listener.fileno(), listener.getsockname()[1]) is None
    assert _bytes_received(client.fileno(), listener.getsockname()[1]) is None
    client.close()
    accepted.close()
