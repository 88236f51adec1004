"""How many connections a listening port has, and from where; ends those that are too many of one address, and those
that sent the most if too much came that nobody has received.

gRPC takes connections itself and tells nobody, and a message only once all of it is in memory: forty of 60 MiB that
come at once are there before any can be refused. So the process looks at its own descriptors now and then: the sockets
among them say whom they connect, and how much came.
"""

import contextlib
import os
import socket
import stat
import struct
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from threading import Event, Lock, Thread

from lograft.runtime.allocator import give_back_memory
from lograft.runtime.logging import get_logger
from lograft.runtime.network import ConnectionLimits
from lograft.runtime.process_stats import resident_bytes

log = get_logger(__name__)

_DESCRIPTORS = "/dev/fd"
_QUIET_SECONDS = 1.0
_BUSY_SECONDS = 0.1
_SAID_EVERY_SECONDS = 10.0
_WEIGH_SECONDS = 0.05
_RETURN_SECONDS = 10.0
_BLUR_BYTES = 1024 * 1024
# Measured: 40 bytes around a message of a stream, 55 around one that is a call; 8 a second of pings; 12 for each
# mebibyte that the other end read, more if it reads little at a time.
_AROUND_MESSAGE_BYTES = 128
_PING_BYTES_PER_SECOND = 32
_SENT_PER_BYTE_OF_NEWS = 256
_BYTES_ACKNOWLEDGED_AND_RECEIVED = struct.Struct("=QQ")
_BYTES_AT = 120  # in Linux's tcp_info
_TOO_MUCH = "it sent more than there is memory for while others did, too: send it again"


@dataclass(frozen=True, slots=True)
class _Seen:
    """An open connection: the address at its other end, and when it was first seen, as a number that grows."""

    peer: tuple[str, int]
    number: int

    @property
    def host(self) -> str:
        return self.peer[0]


class ConnectionCensus:
    """What was seen of one port's connections. Pure."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self.open: dict[int, _Seen] = {}  # by the socket's inode
        self.refused = 0
        self._next_number = 0

    def update(self, found: Iterable[tuple[int, tuple[str, int]]]) -> list[int]:
        """All that are open now, by inode and peer; which of them are to be ended: the latest of each address that
        has too many."""
        before, self.open = self.open, {}
        for inode, peer in found:
            seen = before.get(inode)
            if seen is None or seen.peer != peer:
                seen = _Seen(peer, self._next_number)
                self._next_number += 1
            self.open[inode] = seen
        counts = self.counts()
        surplus: list[int] = []
        for host, count in counts.items():
            if count > self.limits.per_address:
                latest = sorted((seen.number, inode) for inode, seen in self.open.items() if seen.host == host)
                surplus += [inode for _, inode in latest[self.limits.per_address :]]
        self.refused += len(surplus)
        return surplus

    def counts(self) -> Counter[str]:
        return Counter(seen.host for seen in self.open.values())

    @property
    def is_full(self) -> bool:
        return len(self.open) >= self.limits.total


@dataclass(frozen=True, slots=True)
class Carried:
    """By a connection, both ways, as TCP counts it."""

    received_bytes: int
    sent_bytes: int = 0


@dataclass(slots=True)
class _Heard:
    """What handlers received of a connection. `before`: sizes and messages when it was last looked at. `waived_bytes`:
    how much less there was around messages than there may be. `is_missing`: not among those open at the latest look."""

    since_seconds: float | None = None
    size_bytes: int = 0
    messages: int = 0
    before: tuple[int, int] = (0, 0)
    waived_bytes: int = 0
    is_missing: bool = False


class UnreadBytes:
    """How much came by each connection that no handler has received yet, as far as can be told.

    TCP counts all that a connection carries: frames and headers around messages, pings, and news of what was read of
    what was sent. A connection that lives for months carries gigabytes of those, so as much as there may be of them is
    not believed to be anything, nor is what is below `_BLUR_BYTES`.
    """

    def __init__(self) -> None:
        self._heard: dict[tuple[str, int], _Heard] = {}
        self._mutex = Lock()

    def keep(self, peers: Collection[tuple[str, int]], now_seconds: float) -> None:
        """Those that are open. One that is missing once may have come while they were counted, and be heard of
        already."""
        with self._mutex:
            self._heard = {peer: heard for peer, heard in self._heard.items() if peer in peers or not heard.is_missing}
            for peer, heard in self._heard.items():
                heard.is_missing = peer not in peers
            for peer in peers:
                heard = self._heard.setdefault(peer, _Heard())
                if heard.since_seconds is None:
                    heard.since_seconds = now_seconds

    def received(self, peer: tuple[str, int], size_bytes: int) -> None:
        """A handler has a message."""
        with self._mutex:
            heard = self._heard.get(peer)
            if heard is None:
                heard = self._heard[peer] = _Heard()
            heard.size_bytes += size_bytes
            heard.messages += 1

    def begin_look(self) -> None:
        """What is received from now on may have come after what `update` is going to be told."""
        with self._mutex:
            for heard in self._heard.values():
                heard.before = (heard.size_bytes, heard.messages)

    def update(self, came: Mapping[tuple[str, int], Carried], now_seconds: float) -> dict[tuple[str, int], int]:
        """Of all connections that are open: how much is unread of those that have anything to speak of. After
        `begin_look`."""
        self.keep(came, now_seconds)
        unread: dict[tuple[str, int], int] = {}
        with self._mutex:
            for peer, carried in came.items():
                size = _unread_of(self._heard[peer], carried, now_seconds)
                if size > _BLUR_BYTES:
                    unread[peer] = size
        return unread


def _unread_of(heard: _Heard, carried: Carried, now_seconds: float) -> int:
    assert heard.since_seconds is not None
    pings = int(max(0.0, now_seconds - heard.since_seconds) * _PING_BYTES_PER_SECOND)
    beside = carried.received_bytes // 100 + pings + carried.sent_bytes // _SENT_PER_BYTE_OF_NEWS
    came = carried.received_bytes - beside + heard.waived_bytes
    size_before, messages_before = heard.before
    least = came - size_before - messages_before * _AROUND_MESSAGE_BYTES
    if least < 0:  # there was less of it: no more is to hide behind that later
        heard.waived_bytes -= least
        came -= least
    return came - heard.size_bytes - heard.messages * _AROUND_MESSAGE_BYTES


def surplus_of(unread: Mapping[tuple[str, int], int], limit_bytes: int) -> list[tuple[str, int]]:
    """Whose connections are to be ended, so that the rest is within the limit: those with the most. Pure."""
    total, ended = sum(unread.values()), []
    for peer, size in sorted(unread.items(), key=lambda each: -each[1]):
        if total <= limit_bytes:
            break
        ended.append(peer)
        total -= size
    return ended


class ConnectionGuard:
    """Of one port: `start`, then `stop`. It looks from a thread of its own, because large messages keep the loop busy
    when there is the most to see; `unread` alone is shared with the loop."""

    def __init__(self, address: str, limits: ConnectionLimits, now_seconds: Callable[[], float]) -> None:
        self.unread = UnreadBytes()
        self._unread_limit = limits.unread_bytes
        self._resident_then = resident_bytes() or 0
        self._has_grown = False
        self._next_return_seconds = 0.0
        self._next_look_seconds = 0.0
        self._address = address
        self._port = int(address.rpartition(":")[2])
        self._now_seconds = now_seconds
        self._census = ConnectionCensus(limits)
        self._strangers: dict[int, None] = {}  # inodes of sockets that are not of this port
        self.ended_unread = 0
        self._thread: Thread | None = None
        self._is_stopping = Event()
        self._said_seconds: float | None = None
        self._refused_then = 0

    @property
    def open(self) -> int:
        """When it last looked."""
        return len(self._census.open)

    @property
    def refused(self) -> int:
        """How many it has ended since it started; those that gRPC itself did not take are not known."""
        return self._census.refused

    def start(self) -> None:
        # A daemon, so that a node that is killed by a panic need not wait for it.
        self._thread = Thread(target=self._run, name=f"connections of {self._address}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._is_stopping.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._is_stopping.wait(_WEIGH_SECONDS if self._unread_limit else _BUSY_SECONDS):
            if self._now_seconds() >= self._next_look_seconds:
                surplus = self.look()
                is_busy = surplus or self._census.is_full
                self._next_look_seconds = self._now_seconds() + (_BUSY_SECONDS if is_busy else _QUIET_SECONDS)
            self.weigh()
            if self._has_grown and self._now_seconds() >= self._next_return_seconds:
                self._next_return_seconds = self._now_seconds() + _RETURN_SECONDS
                give_back_memory()
                self._resident_then, self._has_grown = resident_bytes() or 0, False

    def weigh(self) -> int:
        """If the process has grown: end those that sent too much that nobody has received; how many that were."""
        if self._unread_limit is None:
            return 0
        resident = resident_bytes()
        if resident is not None and resident < self._resident_then + self._unread_limit // 4:
            self._resident_then = min(self._resident_then, resident)
            return 0
        self.unread.begin_look()
        found = self._what_came()
        if found is None:
            return 0
        came, descriptors = found
        unread = self.unread.update(came, self._now_seconds())
        surplus = surplus_of(unread, self._unread_limit)
        for peer in surplus:
            log.warning("connection_ended", peer=f"{peer[0]}:{peer[1]}", unread_bytes=unread[peer], reason=_TOO_MUCH)
            _end(*descriptors[peer])
        if not unread:
            # It has grown by something else, or by what is freed by now, and kept for the next burst.
            self._resident_then, self._has_grown = resident or 0, True
        self.ended_unread += len(surplus)
        return len(surplus)

    def _what_came(self) -> tuple[dict[tuple[str, int], Carried], dict[tuple[str, int], tuple[int, int]]] | None:
        """By each connection, and what its descriptor and inode are; None if it cannot be told now."""
        came: dict[tuple[str, int], Carried] = {}
        descriptors: dict[tuple[str, int], tuple[int, int]] = {}
        try:
            names = os.listdir(_DESCRIPTORS)
        except OSError:  # there may be no descriptor for that
            return None
        for descriptor in map(int, names):
            inode = _socket_inode(descriptor)
            if inode is None or inode in self._strangers:
                continue
            found = _carried_by(descriptor, self._port)
            if found is None:
                self._strangers[inode] = None
                continue
            peer, carried = found
            came[peer] = carried
            descriptors[peer] = (descriptor, inode)
        return came, descriptors

    def look(self) -> int:
        """Count, and end what is too much: how many that were."""
        connections = self._connections()
        if connections is None:
            return 0
        found, descriptors = connections
        self.unread.keep({peer for _, peer in found}, self._now_seconds())
        surplus = self._census.update(found)
        for inode in surplus:
            _end(descriptors[inode], inode)
        if surplus or self._census.is_full:
            self._say()
        return len(surplus)

    def _connections(self) -> tuple[list[tuple[int, tuple[str, int]]], dict[int, int]] | None:
        """By inode, and what their descriptors are; None if it cannot be told now."""
        found: list[tuple[int, tuple[str, int]]] = []
        descriptors: dict[int, int] = {}
        strangers: dict[int, None] = {}
        try:
            names = os.listdir(_DESCRIPTORS)
        except OSError:  # there may be no descriptor for that
            return None
        for descriptor in map(int, names):
            inode = _socket_inode(descriptor)
            if inode is None:
                continue
            if inode in self._strangers:
                strangers[inode] = None
                continue
            seen = self._census.open.get(inode)
            peer = seen.peer if seen is not None else _peer_of(descriptor, self._port)
            if peer is None:
                strangers[inode] = None
                continue
            found.append((inode, peer))
            descriptors[inode] = descriptor
        self._strangers = strangers
        return found, descriptors

    def _say(self) -> None:
        """Once in a while: who refuses many would else fill the disk with it."""
        now_seconds = self._now_seconds()
        if self._said_seconds is not None and now_seconds - self._said_seconds < _SAID_EVERY_SECONDS:
            return
        self._said_seconds = now_seconds
        most, count = self._census.counts().most_common(1)[0]
        log.warning(
            "connections_refused",
            listen=self._address,
            open=self.open,
            limit=self._census.limits.total,
            most_from=most,
            from_there=count,
            limit_per_address=self._census.limits.per_address,
            ended=self.refused - self._refused_then,
        )
        self._refused_then = self.refused


def _socket_inode(descriptor: int) -> int | None:
    try:
        status = os.fstat(descriptor)
    except OSError:
        return None  # closed meanwhile
    return status.st_ino if stat.S_ISSOCK(status.st_mode) else None


def _carried_by(descriptor: int, port: int) -> tuple[tuple[str, int], Carried] | None:
    """Who is at the other end of a connection of `port`, and what it carried; None: it is something else."""
    with _looking_at(descriptor) as one:
        peer = _peer(one, port)
        if one is None or peer is None:
            return None
        try:
            information = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        except (OSError, AttributeError):  # not every system tells
            return None
    if len(information) < _BYTES_ACKNOWLEDGED_AND_RECEIVED.size + _BYTES_AT:
        return None
    acknowledged, received = _BYTES_ACKNOWLEDGED_AND_RECEIVED.unpack_from(information, _BYTES_AT)
    return peer, Carried(received, acknowledged)


@contextlib.contextmanager
def _looking_at(descriptor: int) -> Iterator[socket.socket | None]:
    """A socket of somebody else's, who may close it at any moment; it takes no descriptor, of which none may be left.
    None: it is closed by now."""
    try:
        one = socket.socket(fileno=descriptor)
    except OSError:
        yield None
        return
    try:
        yield one
    finally:
        one.detach()


def _peer(one: socket.socket | None, port: int) -> tuple[str, int] | None:
    """Where a connection of `port` comes from; None: the socket is something else, or is not there any more."""
    if one is None or one.family not in (socket.AF_INET, socket.AF_INET6):
        return None
    try:
        if one.getsockname()[1] != port:
            return None
        name = one.getpeername()
    except OSError:
        return None  # it listens, or is over
    return plain_host(str(name[0])), int(name[1])


def plain_host(host: str) -> str:
    return host.removeprefix("::ffff:")


def _peer_of(descriptor: int, port: int) -> tuple[str, int] | None:
    with _looking_at(descriptor) as one:
        return _peer(one, port)


def _end(descriptor: int, inode: int) -> None:
    """Shut the connection down, as if its other end had gone. Whoever owns the descriptor may close it at any moment,
    and the number be another file's then: the duplicate is looked at again before."""
    try:
        duplicate = socket.socket(fileno=os.dup(descriptor))
    except OSError:
        return
    with contextlib.closing(duplicate), contextlib.suppress(OSError):
        if os.fstat(duplicate.fileno()).st_ino == inode:
            duplicate.shutdown(socket.SHUT_RDWR)
