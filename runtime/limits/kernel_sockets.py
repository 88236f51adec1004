"""What the kernel knows of this process's connections, asked without letting go of the interpreter.

Python releases its lock around each system call, and a thread that wants it back from a busy one waits 5 ms each time.
To look at two hundred connections with `os` and `socket` took a second just then, when the most is to be seen. Each
call here takes about a microsecond, so the lock is kept. What connections carried, only Linux tells.
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
_LARGEST_GAP = 512  # between descriptors that are open
_MOST_DESCRIPTORS = 128 * 1024  # more than any number of connections and files takes
_CLOSED = 0x20  # POLLNVAL


@dataclass(frozen=True, slots=True)
class SocketBytes:
    """By a connection, both ways, as TCP counts it."""

    received_bytes: int
    sent_bytes: int = 0


def connections_of(port: int, highest: int) -> tuple[list[tuple[int, Peer]], int]:
    """Return the open connections of `port`: their descriptors and other ends; and the highest descriptor that is
    open.

    `highest`: as returned before, or by `highest_descriptor`; 0 at first. The kernel gives the lowest number that is
    free, so what was opened since is mostly below that, or not far above the last that is open. Not always: who opens
    very many at once and closes the earliest of them leaves a gap, beyond which only `highest_descriptor` looks.
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
    """Return the highest descriptor that is open, however large the gaps below it are; 0 if the kernel does not say. A
    single call, of about a millisecond, without the interpreter's lock."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(limit, _MOST_DESCRIPTORS) if limit != resource.RLIM_INFINITY else _MOST_DESCRIPTORS
    asked = array("i", bytes(8 * count))  # each a descriptor, then what is wanted and what is told
    asked[::2] = array("i", range(count))
    if _poll(asked.buffer_info()[0], count, 0) < 0:
        return 0
    told = asked.tobytes()[6 if sys.byteorder == "little" else 7 :: 8]
    return max(0, len(told.rstrip(bytes([_CLOSED]))) - 1)


def carried_by(descriptor: int, peer: Peer) -> SocketBytes | None:
    """What the connection carried. None if the descriptor is another's by now, or the kernel does not say."""
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
    """Shut the connection down, as if its other end had gone. False if the descriptor is no longer that connection's.

    The owner may close it at any moment, and its number then be another file's: a duplicate is looked at before.
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
    """What this process has in RAM."""
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
    """None if it is no connection of `port`."""
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


_library = ctypes.PyDLL(None)  # `PyDLL`: calls keep the interpreter's lock
_poll = ctypes.CDLL(None).poll
_poll.argtypes = (ctypes.c_void_p, ctypes.c_ulong, ctypes.c_int)
_HAS_LENGTH = sys.platform == "darwin"  # addresses begin with it
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
