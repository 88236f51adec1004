"""Ports of this machine."""

import contextlib
import socket


def is_port_free(host: str, port: int) -> bool:
    """Whether a server could listen there now."""
    with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as probe:
        # As servers do: connections of an earlier one that are still being forgotten are no hindrance.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True
