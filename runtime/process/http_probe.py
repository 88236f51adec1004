"""A probe of a page over HTTP."""

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
