"""Finds which process owns the other end of a loopback connection. Linux only: it asks the kernel."""

import os
import socket
import struct
from collections.abc import Callable, Iterable

_LOCAL, _INODE = 1, 9  # columns of /proc/net/tcp
_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")


# The kernel's sock_diag takes a header with a request and returns a header with an answer. Reading all connections in
# /proc takes 50 ms with two thousand of them; callers that time out meanwhile connect again and add more.
_HEADER = struct.Struct("=IHHII")
_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY, _REQUESTED, _NO_COOKIE = 4, 20, 1, 0xFFFFFFFF
_NLMSG_ERROR = 2
_ERROR = struct.Struct("=i")
_ENOENT = 2
_INODE_AT = _HEADER.size + 4 + 48 + 16
_PATIENCE_SECONDS = 1.0
_LOOPBACK = socket.inet_aton("127.0.0.1") + bytes(12)


class SocketOwners:
    """Finds which of `processes()`, given by id, owns a connection.

    Scanning the files of all processes takes milliseconds, so it caches the result, which covers all connections that
    existed at that time. After a stall, thousands of callers may be waiting. A scan for each of them would take longer
    than they wait, and each would connect again.
    """

    def __init__(self, processes: Callable[[], Iterable[int]]) -> None:
        self._processes = processes
        self._owners: dict[str, int] = {}  # process ids by the inode of the socket

    def owner_of(self, port: int, peer_port: int) -> int | None:
        """Return the process whose socket is bound to `port` and connected to `peer_port`. Return None if it is none of
        the processes, or if the caller has closed the socket."""
        try:
            inode = _inode_between(port, peer_port)
        except OSError:  # sock_diag is not available
            inode = _inode_of(port)
        if inode is None:
            return None
        if inode not in self._owners:
            self._owners = {found: process_id for process_id in self._processes() for found in _sockets_of(process_id)}
        return self._owners.get(inode)


def _inode_between(port: int, peer_port: int) -> str | None:
    """Return the inode of a loopback connection's socket, or None if there is no such connection. Raise OSError if the
    kernel does not support the request."""
    ports = struct.pack("!HH", port, peer_port)
    family = struct.pack("=BBBBI", socket.AF_INET, socket.IPPROTO_TCP, 0, 0, 0xFFFFFFFF)
    which = ports + _LOOPBACK + _LOOPBACK + struct.pack("=III", 0, _NO_COOKIE, _NO_COOKIE)
    size = _HEADER.size + len(family) + len(which)
    request = _HEADER.pack(size, _SOCK_DIAG_BY_FAMILY, _REQUESTED, 0, 0) + family + which
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _NETLINK_SOCK_DIAG) as kernel:
        kernel.settimeout(_PATIENCE_SECONDS)
        kernel.send(request)
        answer = kernel.recv(4096)
    _, kind, *_ = _HEADER.unpack_from(answer)
    if kind == _NLMSG_ERROR:
        (code,) = _ERROR.unpack_from(answer, _HEADER.size)
        if code == -_ENOENT:
            return None
        raise OSError(-code, os.strerror(-code))
    if kind != _SOCK_DIAG_BY_FAMILY:
        raise OSError(f"sock_diag answered with a message of type {kind}")
    (inode,) = struct.unpack_from("=I", answer, _INODE_AT)
    return str(inode) if inode else None  # 0 if it is closed, and only waits for the last packets


def _inode_of(port: int) -> str | None:
    suffix = f":{port:04X}"
    for table in _TABLES:
        try:
            with open(table) as lines:
                next(lines)  # titles
                for line in lines:
                    columns = line.split()
                    if columns[_LOCAL].endswith(suffix) and columns[_INODE] != "0":
                        return columns[_INODE]
        except OSError:
            continue
    return None


def _sockets_of(process_id: int) -> list[str]:
    """Return the inodes of a process's sockets, or an empty list if the process has ended."""
    directory = f"/proc/{process_id}/fd"
    found = []
    try:
        for name in os.listdir(directory):
            try:
                target = os.readlink(f"{directory}/{name}")
            except OSError:
                continue  # closed meanwhile
            if target.startswith("socket:["):
                found.append(target[len("socket:[") : -1])
    except OSError:
        return []
    return found
