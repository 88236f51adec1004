"""Access to a cluster: bootstrap, connections, metadata, unary calls."""
