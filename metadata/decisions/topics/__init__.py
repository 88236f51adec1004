"""Decisions about topics: creation, deletion, new partitions, placement."""
