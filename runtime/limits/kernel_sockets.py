"""The kernel's data on this process's connections, read without releasing the interpreter lock.

Python releases its lock around each system call, and a thread that wants it back from a busy one waits 5 ms each time.
Inspecting two hundred connections with `os` and `socket` took a second under load, when it matters most. Each call here
takes about a microsecond, so it keeps the lock. Only Linux provides the bytes that a connection carried.
"""

import ctypes
import fcntl
import os
import resource
import socket
import struct
import sys
from array import array
from collections.abc import Callable
from dataclasses import dataclass

Peer = tuple[str, int]

_TCP_INFO = 11
_BYTES_ACKNOWLEDGED_AND_RECEIVED = struct.Struct("=QQ")
_BYTES_AT = 120  # in tcp_info
_ADDRESS_BYTES = 128
_LARGEST_GAP = 512  # between open descriptors
_MOST_DESCRIPTORS = 128 * 1024  # more than all connections and files need
_CLOSED = 0x20  # POLLNVAL


@dataclass(frozen=True, slots=True)
class SocketBytes:
    """The bytes carried by a connection in both directions, as TCP counts them."""

    received_bytes: int
    sent_bytes: int = 0


def connections_of(port: int, highest: int) -> tuple[list[tuple[int, Peer]], int]:
    """Return the open connections of `port`, as descriptors and peers, and the highest open descriptor.

    `highest`: as returned by the previous call or by `highest_descriptor`; 0 at first. The kernel assigns the lowest
    free number, so later descriptors are usually below that, or not far above the last open one. But a process that
    opens very many at once, and closes the earliest of them, leaves a gap that only `highest_descriptor` looks beyond.
    """
    found: list[tuple[int, Peer]] = []
    descriptor = last = 0
    while descriptor <= highest or descriptor - last <= _LARGEST_GAP:
        if _library.fcntl(descriptor, fcntl.F_GETFD) >= 0:
            last = descriptor
            if (peer := _peer_of(descriptor, port)) is not None:
                found.append((descriptor, peer))
        descriptor += 1
    return found, last


def highest_descriptor() -> int:
    """Return the highest open descriptor, regardless of gaps, or 0 if the kernel does not provide it. This is a single
    call of about a millisecond, without the interpreter lock."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(limit, _MOST_DESCRIPTORS) if limit != resource.RLIM_INFINITY else _MOST_DESCRIPTORS
    asked = array("i", bytes(8 * count))  # pollfd entries: descriptor, events, returned events
    asked[::2] = array("i", range(count))
    if _poll(asked.buffer_info()[0], count, 0) < 0:
        return 0
    told = asked.tobytes()[6 if sys.byteorder == "little" else 7 :: 8]
    return max(0, len(told.rstrip(bytes([_CLOSED]))) - 1)


def carried_by(descriptor: int, peer: Peer) -> SocketBytes | None:
    """Return the bytes that the connection carried, or None if the descriptor is no longer that connection's, or the
    kernel does not provide them."""
    if sys.platform != "linux":
        return None
    information = (ctypes.c_char * 256)()
    size = ctypes.c_uint32(ctypes.sizeof(information))
    if _library.getsockopt(descriptor, socket.IPPROTO_TCP, _TCP_INFO, information, ctypes.byref(size)) != 0:
        return None
    if size.value < _BYTES_AT + _BYTES_ACKNOWLEDGED_AND_RECEIVED.size or _name_of(descriptor) != peer:
        return None
    acknowledged, received = _BYTES_ACKNOWLEDGED_AND_RECEIVED.unpack_from(information.raw, _BYTES_AT)
    return SocketBytes(received, acknowledged)


def end_connection(descriptor: int, peer: Peer) -> bool:
    """Shut the connection down, as if its other end had closed it. Return False if the descriptor is no longer that
    connection's.

    The owner may close the descriptor at any moment, and the kernel may reuse its number. So check a duplicate first.
    """
    duplicate = _library.dup(descriptor)
    if duplicate < 0:
        return False
    is_it = _name_of(duplicate) == peer
    if is_it:
        _library.shutdown(duplicate, socket.SHUT_RDWR)
    _library.close(duplicate)
    return is_it


def own_resident_bytes() -> int | None:
    """Return the resident memory of this process."""
    descriptor = _library.open(b"/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
    if descriptor < 0:
        return None
    content = (ctypes.c_char * 128)()
    size = _library.read(descriptor, content, ctypes.sizeof(content))
    _library.close(descriptor)
    return int(content.raw[:size].split()[1]) * _PAGE_BYTES if size > 0 else None


def plain_host(host: str) -> str:
    return host.removeprefix("::ffff:")


def _peer_of(descriptor: int, port: int) -> Peer | None:
    """Return the peer, or None if the descriptor is not a connection of `port`."""
    own = _name(_library.getsockname, descriptor)
    return _name_of(descriptor) if own is not None and own[1] == port else None


def _name_of(descriptor: int) -> Peer | None:
    return _name(_library.getpeername, descriptor)


def _name(ask: Callable[..., int], descriptor: int) -> Peer | None:
    address = (ctypes.c_char * _ADDRESS_BYTES)()
    size = ctypes.c_uint32(_ADDRESS_BYTES)
    if ask(descriptor, address, ctypes.byref(size)) != 0:
        return None
    raw = address.raw
    family, port = raw[1] if _HAS_LENGTH else raw[0], int.from_bytes(raw[2:4], "big")
    if family == socket.AF_INET:
        return socket.inet_ntop(socket.AF_INET, raw[4:8]), port
    if family == socket.AF_INET6:
        return plain_host(socket.inet_ntop(socket.AF_INET6, raw[8:24])), port
    return None


_library = ctypes.PyDLL(None)  # with `PyDLL`, calls keep the interpreter lock
_poll = ctypes.CDLL(None).poll
_poll.argtypes = (ctypes.c_void_p, ctypes.c_ulong, ctypes.c_int)
_HAS_LENGTH = sys.platform == "darwin"  # there, addresses begin with their length
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
