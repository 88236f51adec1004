"""Fault injection: the virtual runtime, and the harnesses built on it."""
