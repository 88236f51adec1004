"""Which process of this machine is at the other end of a loopback connection. Linux only: the kernel is asked."""

import os
import socket
import struct
from collections.abc import Iterable

_LOCAL, _INODE = 1, 9  # columns of /proc/net/tcp
_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")


# Of the kernel's sock_diag: a header, a request and an answer. Reading through all connections in /proc takes 50 ms
# where there are two thousand; who waits for that connects again, and there are more.
_HEADER = struct.Struct("=IHHII")
_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY, _REQUESTED, _NO_COOKIE = 4, 20, 1, 0xFFFFFFFF
_INODE_AT = _HEADER.size + 4 + 48 + 16
_PATIENCE_SECONDS = 1.0
_LOOPBACK = socket.inet_aton("127.0.0.1") + bytes(12)


def owner_of(port: int, process_ids: Iterable[int], peer_port: int | None = None) -> int | None:
    """Return which of these processes has the connection whose own port that is; `peer_port`: to which one, on
    loopback, which makes it quick. None: none of them, as far as can be seen."""
    inode = None if peer_port is None else _inode_between(port, peer_port)
    if inode is None:
        inode = _inode_of(port)
    if inode is None:
        return None
    wanted = f"socket:[{inode}]"
    return next((process_id for process_id in process_ids if wanted in _open_files(process_id)), None)


def _inode_between(port: int, peer_port: int) -> str | None:
    """None: the kernel does not know, or does not say."""
    ports = struct.pack("!HH", port, peer_port)
    family = struct.pack("=BBBBI", socket.AF_INET, socket.IPPROTO_TCP, 0, 0, 0xFFFFFFFF)
    which = ports + _LOOPBACK + _LOOPBACK + struct.pack("=III", 0, _NO_COOKIE, _NO_COOKIE)
    size = _HEADER.size + len(family) + len(which)
    request = _HEADER.pack(size, _SOCK_DIAG_BY_FAMILY, _REQUESTED, 0, 0) + family + which
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _NETLINK_SOCK_DIAG) as kernel:
            kernel.settimeout(_PATIENCE_SECONDS)
            kernel.send(request)
            answer = kernel.recv(4096)
    except OSError:
        return None
    _, kind, *_ = _HEADER.unpack_from(answer)
    if kind != _SOCK_DIAG_BY_FAMILY:
        return None
    (inode,) = struct.unpack_from("=I", answer, _INODE_AT)
    return str(inode) if inode else None


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


def _open_files(process_id: int) -> set[str]:
    directory = f"/proc/{process_id}/fd"
    found = set()
    try:
        for name in os.listdir(directory):
            try:
                found.add(os.readlink(f"{directory}/{name}"))
            except OSError:
                continue  # it was closed meanwhile
    except OSError:
        return set()  # the process is gone
    return found
