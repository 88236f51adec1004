"""Clients of a live run."""
