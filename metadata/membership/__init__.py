"""The brokers' side: registration, heartbeats, following the metadata, forwarding."""
