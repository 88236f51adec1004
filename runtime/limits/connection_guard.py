"""Counts the connections of a listening port by address. Ends those beyond the limit of an address, and those that sent
the most if too many bytes arrived that no handler has received.

gRPC takes connections itself and tells nobody, and a message only once all of it is in memory: forty of 60 MiB that
come at once are there before any can be refused. So the process looks at its own descriptors now and then: the sockets
among them say whom they connect, and how much came.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from threading import Event, Lock, Thread

from lograft.runtime.limits.kernel_sockets import (
    Peer,
    SocketBytes,
    carried_by,
    connections_of,
    end_connection,
    highest_descriptor,
    own_resident_bytes,
)
from lograft.runtime.network import ConnectionLimits
from lograft.runtime.observability.logging import get_logger
from lograft.runtime.process.allocator import give_back_memory

log = get_logger(__name__)

_QUIET_SECONDS = 1.0
_BUSY_SECONDS = 0.1
_SAID_EVERY_SECONDS = 10.0
_WEIGH_SECONDS = 0.05
_ALERT_SECONDS = 0.01
_RETURN_SECONDS = 10.0
_BLUR_BYTES = 1024 * 1024
# Measured: 40 bytes around a message of a stream, 55 around one that is a call; 8 a second of pings; 12 for each
# mebibyte that the other end read, more if it reads little at a time.
_AROUND_MESSAGE_BYTES = 128
_PING_BYTES_PER_SECOND = 32
_SENT_PER_BYTE_OF_NEWS = 256
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
        self.open: dict[int, _Seen] = {}  # by descriptor
        self.refused = 0
        self._next_number = 0

    def update(self, found: Iterable[tuple[int, tuple[str, int]]]) -> list[int]:
        """Return all that are open now, by descriptor and peer; which of them are to be ended: the latest of each
        address that has too many."""
        before, self.open = self.open, {}
        for descriptor, peer in found:
            seen = before.get(descriptor)
            if seen is None or seen.peer != peer:
                seen = _Seen(peer, self._next_number)
                self._next_number += 1
            self.open[descriptor] = seen
        counts = self.counts()
        surplus: list[int] = []
        for host, count in counts.items():
            if count > self.limits.per_address:
                latest = sorted(
                    (seen.number, descriptor) for descriptor, seen in self.open.items() if seen.host == host
                )
                surplus += [one for _, one in latest[self.limits.per_address :]]
        self.refused += len(surplus)
        return surplus

    def counts(self) -> Counter[str]:
        return Counter(seen.host for seen in self.open.values())

    @property
    def is_full(self) -> bool:
        return len(self.open) >= self.limits.total


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

    def update(self, came: Mapping[tuple[str, int], SocketBytes], now_seconds: float) -> dict[tuple[str, int], int]:
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


def _unread_of(heard: _Heard, carried: SocketBytes, now_seconds: float) -> int:
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

    def __init__(
        self,
        address: str,
        limits: ConnectionLimits,
        now_seconds: Callable[[], float],
        believed: Callable[[], Collection[tuple[str, int]]] | None = None,
    ) -> None:
        self.unread = UnreadBytes()
        self._believed = believed
        self._unread_limit = limits.unread_bytes
        self._resident_then = own_resident_bytes() or 0
        self._has_grown = self._is_alert = False
        self._highest = 0  # descriptor, at the latest look
        self._next_return_seconds = 0.0
        self._next_look_seconds = 0.0
        self._address = address
        self._port = int(address.rpartition(":")[2])
        self._now_seconds = now_seconds
        self._census = ConnectionCensus(limits)
        self.ended_unread = 0
        self._returned_for = 0  # what `ended_unread` was when freed memory was last given back
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
        while not self._is_stopping.wait(self._pause_seconds()):
            if self._now_seconds() >= self._next_look_seconds:
                surplus = self.look()
                is_busy = surplus or self._census.is_full
                self._next_look_seconds = self._now_seconds() + (_BUSY_SECONDS if is_busy else _QUIET_SECONDS)
            self.weigh()
            if self._has_grown and self._now_seconds() >= self._next_return_seconds:
                self._next_return_seconds = self._now_seconds() + _RETURN_SECONDS
                give_back_memory()
                self._returned_for = self.ended_unread
                self._resident_then, self._has_grown = own_resident_bytes() or 0, False

    def _pause_seconds(self) -> float:
        if self._unread_limit is None:
            return _BUSY_SECONDS
        return _ALERT_SECONDS if self._is_alert else _WEIGH_SECONDS

    def weigh(self) -> int:
        """If the process has grown: end those that sent too much that nobody has received; how many that were."""
        if self._unread_limit is None:
            return 0
        resident = own_resident_bytes()
        if resident is not None and resident < self._resident_then + self._unread_limit // 4:
            self._resident_then = min(self._resident_then, resident)
            return 0
        self.unread.begin_look()
        came, descriptors = self._what_came()
        unread = self.unread.update(came, self._now_seconds())
        for peer in () if self._believed is None else self._believed():
            unread.pop(peer, None)
        self._is_alert = sum(unread.values()) > self._unread_limit // 4
        surplus = surplus_of(unread, self._unread_limit)
        ended = [peer for peer in surplus if end_connection(descriptors[peer], peer)]
        if ended:  # said afterwards: to write it takes longer than to end them
            most = f"{ended[0][0]}:{ended[0][1]}"
            unread_bytes = sum(unread[peer] for peer in ended)
            log.warning(
                "connections_ended", ended=len(ended), most_from=most, unread_bytes=unread_bytes, reason=_TOO_MUCH
            )
        if not unread:
            # It has grown by something else, or by what is freed by now, and kept for the next burst.
            # Where most connections are believed, that is nearly always what those carry: memory that is used again.
            self._resident_then = resident or 0
            self._has_grown = self._has_grown or self._believed is None or self.ended_unread > self._returned_for
        self.ended_unread += len(ended)
        return len(ended)

    def _what_came(self) -> tuple[dict[Peer, SocketBytes], dict[Peer, int]]:
        """By each connection, and what its descriptor is."""
        came: dict[Peer, SocketBytes] = {}
        connections, self._highest = connections_of(self._port, self._highest)
        for descriptor, peer in connections:
            carried = carried_by(descriptor, peer)
            if carried is not None:
                came[peer] = carried
        return came, {peer: descriptor for descriptor, peer in connections}

    def look(self) -> int:
        """Count, and end what is too much: how many that were."""
        found, self._highest = connections_of(self._port, max(self._highest, highest_descriptor()))
        self.unread.keep({peer for _, peer in found}, self._now_seconds())
        surplus = self._census.update(found)
        peers = dict(found)
        for descriptor in surplus:
            end_connection(descriptor, peers[descriptor])
        if surplus or self._census.is_full:
            self._say()
        return len(surplus)

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
