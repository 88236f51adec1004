"""Writes rows, at least once or exactly once."""
