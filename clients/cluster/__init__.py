"""Knowing a cluster: bootstrap, connections, metadata, unary calls."""
