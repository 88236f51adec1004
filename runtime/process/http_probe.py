"""Probes over HTTP."""

import http.client
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    status: int
    text: str


def get_page(address: str, path: str, timeout_seconds: float) -> ProbeAnswer | None:
    """Return the page at `path` of the server at `address`, or None if there is no answer in time. Blocks."""
    connection = http.client.HTTPConnection(address, timeout=timeout_seconds)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return ProbeAnswer(answer.status, answer.read().decode(errors="replace"))
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def why_not_ready(address: str, timeout_seconds: float) -> str | None:
    """Return why the node with its HTTP server at `address` is not ready, or None if it is ready. Blocks."""
    page = get_page(address, "/readyz", timeout_seconds)
    if page is None:
        return "no answer yet"
    return None if page.status == http.HTTPStatus.OK else page.text.strip()
