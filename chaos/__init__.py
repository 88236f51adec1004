"""Faults on purpose: the virtual runtime, and the harnesses built on it."""
