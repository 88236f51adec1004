"""Which connections are ended when an address has too many: the latest, and nobody else's."""

import asyncio
import contextlib
import errno
import fcntl
import os
import socket
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lograft.runtime.limits.connection_guard import (
    ConnectionCensus,
    ConnectionGuard,
    UnreadBytes,
    surplus_of,
)
from lograft.runtime.limits.kernel_sockets import (
    SocketBytes,
    carried_by,
    connections_of,
    end_connection,
    highest_descriptor,
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
    small = SocketBytes(2000)
    assert unread.update({a: SocketBytes(60 * MEBIBYTE), b: small}, 0.0) == {a: pytest.approx(60 * MEBIBYTE, rel=0.02)}
    unread.received(a, 60 * MEBIBYTE)
    assert unread.update({a: SocketBytes(60 * MEBIBYTE + 50_000), b: small}, 0.0) == {}
    assert unread.update({a: SocketBytes(90 * MEBIBYTE)}, 0.0) == {a: pytest.approx(30 * MEBIBYTE, rel=0.05)}
    for _ in range(2):
        unread.keep(set(), 0.0)
    later = unread.update({a: SocketBytes(30 * MEBIBYTE)}, 0.0)
    assert later == {a: pytest.approx(30 * MEBIBYTE, rel=0.05)}, "another, on the same port"


def test_what_came_while_connections_were_counted_is_not_forgotten() -> None:
    unread = UnreadBytes()
    unread.received(("a", 1), 30 * MEBIBYTE)
    unread.keep({("b", 2)}, 0.0)  # looked for before the other was there
    assert unread.update({("a", 1): SocketBytes(30 * MEBIBYTE + 50_000)}, 0.0) == {}


DAY_SECONDS = 24 * 3600
LONG_LIVES = {
    "large messages": (SocketBytes(1009 * MEBIBYTE), [(1000 * MEBIBYTE, 1)], 60.0),
    "small messages": (SocketBytes(1_000_000 * 112), [(1_000_000 * 60, 1_000_000)], 10_000.0),
    "calls": (SocketBytes(1_000_000 * 115), [(1_000_000 * 60, 1_000_000)], 10_000.0),
    "pings": (SocketBytes(300 * DAY_SECONDS * 10), [], 300.0 * DAY_SECONDS),
    "reading": (SocketBytes(100 * MEBIBYTE, sent_bytes=100 * 1024 * 1024 * MEBIBYTE), [], 0.0),
}


@pytest.mark.parametrize("name", LONG_LIVES)
def test_what_is_said_around_messages_is_no_message(name: str) -> None:
    """A connection that lives for long has carried many megabytes of it, all of which were dealt with."""
    carried, received, seconds = LONG_LIVES[name]
    unread = UnreadBytes()
    peer = ("a", 1)
    unread.keep({peer}, 0.0)
    for size_bytes, messages in received:
        for _ in range(messages):
            unread.received(peer, size_bytes // messages)
    unread.begin_look()
    assert unread.update({peer: carried}, seconds) == {}
    more = SocketBytes(carried.received_bytes + 60 * MEBIBYTE, carried.sent_bytes)
    unread.begin_look()
    found = unread.update({peer: more}, seconds)
    assert found == {peer: pytest.approx(60 * MEBIBYTE, rel=0.1)}, "what is a message is one all the same"


def test_what_comes_while_connections_are_looked_at_explains_nothing_later() -> None:
    unread = UnreadBytes()
    peer = ("a", 1)
    unread.keep({peer}, 0.0)
    unread.begin_look()
    unread.received(peer, 30 * MEBIBYTE)  # it came after the kernel was asked
    assert unread.update({peer: SocketBytes(2000)}, 0.0) == {}
    unread.begin_look()
    assert unread.update({peer: SocketBytes(30 * MEBIBYTE + 50_000)}, 0.0) == {}


def test_no_descriptor_left_to_look_with_ends_nobody(listener: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    guard = ConnectionGuard(
        f"127.0.0.1:{listener.getsockname()[1]}", ConnectionLimits(100, 100, unread_bytes=MEBIBYTE), lambda: 0.0
    )
    monkeypatch.setattr("lograft.runtime.limits.connection_guard.own_resident_bytes", lambda: 2**50)
    (client,), (accepted,) = connect(listener, 1)
    client.setblocking(False)
    sent = received = 0
    while sent < 8 * MEBIBYTE or received < sent:
        with contextlib.suppress(BlockingIOError):
            sent += client.send(bytes(65536)) if sent < 8 * MEBIBYTE else 0
        received += len(accepted.recv(1 << 20))
    guard.unread.received(client.getsockname(), sent)
    assert (guard.look(), guard.weigh()) == (0, 0)

    def no_descriptors(*_: object) -> object:
        raise OSError(errno.EMFILE, "Too many open files")

    for name in ("listdir", "dup"):
        with monkeypatch.context() as broken:
            broken.setattr(os, name, no_descriptors)
            for _ in range(3):
                assert (guard.look(), guard.weigh()) == (0, 0)
    assert (guard.look(), guard.weigh(), guard.open) == (0, 0, 1)
    assert not is_ended(client)
    client.close()
    accepted.close()


def test_the_limit_leaves_out_those_that_are_believed(listener: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    port, now = listener.getsockname()[1], 0.0
    (node, stranger), accepted = connect(listener, 2)
    believed = [node.getsockname()]
    guard = ConnectionGuard(f"127.0.0.1:{port}", ConnectionLimits(9, 9, 4 * MEBIBYTE), lambda: now, lambda: believed)
    monkeypatch.setattr("lograft.runtime.limits.connection_guard.own_resident_bytes", lambda: 2**50)
    for client, other in zip((node, stranger), accepted, strict=True):
        client.setblocking(False)
        other.setblocking(False)
        received = 0
        while received < 8 * MEBIBYTE:
            with contextlib.suppress(BlockingIOError):
                client.send(bytes(65536))
            with contextlib.suppress(BlockingIOError):
                received += len(other.recv(1 << 20))
    if carried_by(accepted[0].fileno(), node.getsockname()) is None:
        pytest.skip("this kernel does not tell what connections carried")
    assert guard.weigh() == 1
    assert [is_ended(client) for client in (node, stranger)] == [False, True]
    for each in (node, stranger, *accepted):
        each.close()


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
    accepted.sendall(bytes(5000))
    sent = 0
    while sent < 5000:
        sent += len(client.recv(65536))
    port = listener.getsockname()[1]
    connections, highest = connections_of(port, 0)
    assert connections == [(accepted.fileno(), client.getsockname())]
    assert highest >= accepted.fileno()
    carried = carried_by(accepted.fileno(), client.getsockname())
    assert carried is not None
    assert carried.received_bytes == 100_000
    assert 0 <= carried.sent_bytes <= 5001
    assert carried_by(accepted.fileno(), ("127.0.0.1", 1)) is None, "another's by now"
    assert carried_by(listener.fileno(), client.getsockname()) is None
    assert not end_connection(accepted.fileno(), ("127.0.0.1", 1))
    assert not is_ended(client)
    assert end_connection(accepted.fileno(), client.getsockname())
    assert is_ended(client)
    client.close()
    accepted.close()


def test_nobody_hides_above_a_gap_between_descriptors(listener: socket.socket) -> None:
    """Who opens very many at once, and closes the earliest, leaves a gap that is larger than any other."""
    (client,), (accepted,) = connect(listener, 1)
    above = fcntl.fcntl(accepted.fileno(), fcntl.F_DUPFD, highest_descriptor() + 600)
    accepted.close()
    guard = ConnectionGuard(f"127.0.0.1:{listener.getsockname()[1]}", LIMITS, lambda: 0.0)
    assert guard.look() == 0
    assert guard.open == 1
    os.close(above)
    guard.look()
    assert guard.open == 0
    client.close()


def test_the_highest_descriptor_is_known() -> None:
    before = highest_descriptor()
    high = fcntl.fcntl(0, fcntl.F_DUPFD, before + 1000)
    assert high == before + 1000
    assert highest_descriptor() == high
    os.close(high)
    assert highest_descriptor() == before
