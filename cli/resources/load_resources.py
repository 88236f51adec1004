"""What a broker has to do at the moment, from two looks at what it has done. Pure."""

from lograft.cli.output.resource_output import Resource
from lograft.clients.admin.model.types import BrokerLoad

COUNTED = {
    "requestsPerSecond": "requests",
    "errorsPerSecond": "errors",
    "recordsInPerSecond": "records_in",
    "bytesInPerSecond": "bytes_in",
    "recordsOutPerSecond": "records_out",
    "bytesOutPerSecond": "bytes_out",
    "replicatedBytesInPerSecond": "replicated_bytes_in",
    "replicatedBytesOutPerSecond": "replicated_bytes_out",
}
"""Rates, and the counts that they are made of."""


def load_status(first: BrokerLoad | None, last: BrokerLoad | None) -> Resource | None:
    """None: it did not answer both times, or was started anew in between."""
    if first is None or last is None:
        return None
    elapsed_ms = last.at_ms - first.at_ms
    if elapsed_ms <= 0 or last.uptime_ms < elapsed_ms:
        return None
    rates = {
        name: round((getattr(last, count) - getattr(first, count)) * 1000 / elapsed_ms, 1)
        for name, count in COUNTED.items()
    }
    return {"uptimeMs": last.uptime_ms, "eventLoopLagMs": last.event_loop_lag_ms, "streams": last.open_streams} | rates
