"""Counts the connections of a listening port by address, and ends those over the limit of an address. If too many bytes
have arrived that no handler has received, it ends the connections that sent the most.

gRPC accepts connections without notice, and reports a message only once it is completely in memory: forty messages of
60 MiB that arrive at once are in memory before any can be refused. So the process periodically inspects its own
descriptors: the sockets among them have the peer's address and the number of bytes received.
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
# Measured overhead: 40 bytes for a message of a stream, 55 for a unary call; 8 bytes a second for pings; 12 bytes of
# window updates for each mebibyte that the other end reads, more if it reads little at a time.
_AROUND_MESSAGE_BYTES = 128
_PING_BYTES_PER_SECOND = 32
_SENT_PER_BYTE_OF_NEWS = 256
_TOO_MUCH = "it sent more than there is memory for while others did, too: send it again"


@dataclass(frozen=True, slots=True)
class _Seen:
    """An open connection. `peer`: the address of its other end. `number`: increases in order of first sight."""

    peer: tuple[str, int]
    number: int

    @property
    def host(self) -> str:
        return self.peer[0]


class ConnectionCensus:
    """The known connections of one port. Pure."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self.open: dict[int, _Seen] = {}  # by descriptor
        self.refused = 0
        self._next_number = 0

    def update(self, found: Iterable[tuple[int, tuple[str, int]]]) -> list[int]:
        """Note all open connections, by descriptor and peer. Return the descriptors to end: the latest ones of each
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
    """The data of a connection that handlers have received.

    `before`: `size_bytes` and `messages` at the start of the latest look. `waived_bytes`: by how much the overhead was
    overestimated. `is_missing`: the connection was not among the open ones at the latest look."""

    since_seconds: float | None = None
    size_bytes: int = 0
    messages: int = 0
    before: tuple[int, int] = (0, 0)
    waived_bytes: int = 0
    is_missing: bool = False


class UnreadBytes:
    """Estimates how many bytes of each connection have arrived without a handler receiving them.

    TCP counts everything that a connection carries, including frames, headers, pings and window updates. On a
    connection that lives for months, these add up to gigabytes. So the estimate subtracts the greatest possible
    overhead, and ignores results below `_BLUR_BYTES`.
    """

    def __init__(self) -> None:
        self._heard: dict[tuple[str, int], _Heard] = {}
        self._mutex = Lock()

    def keep(self, peers: Collection[tuple[str, int]], now_seconds: float) -> None:
        """Keep only the open connections. Drop a missing one at its second absence: it may have been opened during the
        count, and already have delivered a message."""
        with self._mutex:
            self._heard = {peer: heard for peer, heard in self._heard.items() if peer in peers or not heard.is_missing}
            for peer, heard in self._heard.items():
                heard.is_missing = peer not in peers
            for peer in peers:
                heard = self._heard.setdefault(peer, _Heard())
                if heard.since_seconds is None:
                    heard.since_seconds = now_seconds

    def received(self, peer: tuple[str, int], size_bytes: int) -> None:
        """Note that a handler has received a message."""
        with self._mutex:
            heard = self._heard.get(peer)
            if heard is None:
                heard = self._heard[peer] = _Heard()
            heard.size_bytes += size_bytes
            heard.messages += 1

    def begin_look(self) -> None:
        """Note the present counts. Messages received from now on may have arrived after the figures for `update` are
        read."""
        with self._mutex:
            for heard in self._heard.values():
                heard.before = (heard.size_bytes, heard.messages)

    def update(self, came: Mapping[tuple[str, int], SocketBytes], now_seconds: float) -> dict[tuple[str, int], int]:
        """Return the unread bytes of the open connections that have a significant number. `came`: the figures of all
        open connections, read after `begin_look`."""
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
    if least < 0:  # the overhead was overestimated: correct it, so that no later data can hide behind it
        heard.waived_bytes -= least
        came -= least
    return came - heard.size_bytes - heard.messages * _AROUND_MESSAGE_BYTES


def surplus_of(unread: Mapping[tuple[str, int], int], limit_bytes: int) -> list[tuple[str, int]]:
    """Return the peers with the most unread bytes, whose connections must end so that the rest are within the limit.
    Pure."""
    total, ended = sum(unread.values()), []
    for peer, size in sorted(unread.items(), key=lambda each: -each[1]):
        if total <= limit_bytes:
            break
        ended.append(peer)
        total -= size
    return ended


class ConnectionGuard:
    """Guards one port from `start` to `stop`. It runs in a thread of its own, because large messages keep the event
    loop busy just when there is the most to see. It shares only `unread` with the loop."""

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
        self._highest = 0  # the highest descriptor at the latest look
        self._next_return_seconds = 0.0
        self._next_look_seconds = 0.0
        self._address = address
        self._port = int(address.rpartition(":")[2])
        self._now_seconds = now_seconds
        self._census = ConnectionCensus(limits)
        self.ended_unread = 0
        self._returned_for = 0  # `ended_unread` when freed memory was last returned
        self._thread: Thread | None = None
        self._is_stopping = Event()
        self._said_seconds: float | None = None
        self._refused_then = 0

    @property
    def open(self) -> int:
        """The number of open connections at the latest look."""
        return len(self._census.open)

    @property
    def refused(self) -> int:
        """The number of connections ended since the start, without those that gRPC itself refused."""
        return self._census.refused

    def start(self) -> None:
        # A daemon thread, so that a panicking node does not wait for it.
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
        """If the process has grown, end the connections with too many unread bytes. Return how many."""
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
        if ended:  # log afterwards: that takes longer than ending them
            most = f"{ended[0][0]}:{ended[0][1]}"
            unread_bytes = sum(unread[peer] for peer in ended)
            log.warning(
                "connections_ended", ended=len(ended), most_from=most, unread_bytes=unread_bytes, reason=_TOO_MUCH
            )
        if not unread:
            # The process has grown for another reason, or by memory that is freed by now, and kept for the next burst.
            # If most connections are believed, their messages are nearly always the reason, and use it again.
            self._resident_then = resident or 0
            self._has_grown = self._has_grown or self._believed is None or self.ended_unread > self._returned_for
        self.ended_unread += len(ended)
        return len(ended)

    def _what_came(self) -> tuple[dict[Peer, SocketBytes], dict[Peer, int]]:
        """Return the bytes carried by each connection, and its descriptor."""
        came: dict[Peer, SocketBytes] = {}
        connections, self._highest = connections_of(self._port, self._highest)
        for descriptor, peer in connections:
            carried = carried_by(descriptor, peer)
            if carried is not None:
                came[peer] = carried
        return came, {peer: descriptor for descriptor, peer in connections}

    def look(self) -> int:
        """Count the connections, and end those over the limit. Return how many."""
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
        """Log refusals at a limited rate: otherwise, many refusals would fill the disk."""
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
