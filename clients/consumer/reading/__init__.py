"""Fetching: streams, credit, positions, decoded records."""
