"""How many connections a listening port has, and from where; ends those that are too many of one address.

gRPC takes connections itself and tells nobody. So the process looks at its own descriptors now and then: the sockets
among them say whom they connect.
"""

import asyncio
import contextlib
import os
import socket
import stat
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from lograft.runtime.logging import get_logger
from lograft.runtime.network import ConnectionLimits

log = get_logger(__name__)

_DESCRIPTORS = "/dev/fd"
_QUIET_SECONDS = 1.0
_BUSY_SECONDS = 0.1
_SAID_EVERY_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class _Seen:
    """An open connection: the address at its other end, and when it was first seen, as a number that grows."""

    host: str
    number: int


class ConnectionCensus:
    """What was seen of one port's connections. Pure."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self.open: dict[int, _Seen] = {}  # by the socket's inode
        self.refused = 0
        self._next_number = 0

    def update(self, found: Iterable[tuple[int, str]]) -> list[int]:
        """All that are open now, by inode and address; which of them are to be ended: the latest of each address that
        has too many."""
        before, self.open = self.open, {}
        for inode, host in found:
            seen = before.get(inode)
            if seen is None or seen.host != host:
                seen = _Seen(host, self._next_number)
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


class ConnectionGuard:
    """Of one port. `run` until cancelled."""

    def __init__(self, address: str, limits: ConnectionLimits, now_seconds: Callable[[], float]) -> None:
        self._address = address
        self._port = int(address.rpartition(":")[2])
        self._now_seconds = now_seconds
        self._census = ConnectionCensus(limits)
        self._strangers: dict[int, None] = {}  # inodes of sockets that are not of this port
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

    async def run(self) -> None:
        while True:
            surplus = self.look()
            await asyncio.sleep(_BUSY_SECONDS if surplus or self._census.is_full else _QUIET_SECONDS)

    def look(self) -> int:
        """Count, and end what is too much: how many that were."""
        found, descriptors = self._connections()
        surplus = self._census.update(found)
        for inode in surplus:
            _end(descriptors[inode], inode)
        if surplus or self._census.is_full:
            self._say()
        return len(surplus)

    def _connections(self) -> tuple[list[tuple[int, str]], dict[int, int]]:
        found: list[tuple[int, str]] = []
        descriptors: dict[int, int] = {}
        strangers: dict[int, None] = {}
        try:
            names = os.listdir(_DESCRIPTORS)
        except OSError:  # there may be no descriptor for that: look again later
            return [(inode, seen.host) for inode, seen in self._census.open.items()], {}
        for descriptor in map(int, names):
            inode = _socket_inode(descriptor)
            if inode is None:
                continue
            if inode in self._strangers:
                strangers[inode] = None
                continue
            seen = self._census.open.get(inode)
            host = seen.host if seen is not None else _host_of(descriptor, self._port)
            if host is None:
                strangers[inode] = None
                continue
            found.append((inode, host))
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


def _host_of(descriptor: int, port: int) -> str | None:
    """Where a connection of `port` comes from; None: the socket is something else, or is not there any more."""
    try:
        duplicate = socket.socket(fileno=os.dup(descriptor))
    except OSError:
        return None
    with contextlib.closing(duplicate):
        if duplicate.family not in (socket.AF_INET, socket.AF_INET6):
            return None
        try:
            if duplicate.getsockname()[1] != port:
                return None
            host = str(duplicate.getpeername()[0])
        except OSError:
            return None  # it listens, or is over
    return host.removeprefix("::ffff:")


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
