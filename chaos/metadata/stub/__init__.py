"""Brokers without a disk, for the simulator of the metadata."""
