"""Invariants of the metadata."""
