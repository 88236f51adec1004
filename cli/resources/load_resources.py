"""The current load of a broker, from two snapshots of its counters. Pure."""

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
"""Rates, and the counters they derive from."""


def load_status(first: BrokerLoad | None, last: BrokerLoad | None) -> Resource | None:
    """Return rates, or None if the broker did not answer twice, or restarted in between."""
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
