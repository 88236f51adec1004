"""A node: configuration, roles, and the `lograft server` command."""
