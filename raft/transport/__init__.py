"""Messages and snapshots between members, over the runtime's streams."""
