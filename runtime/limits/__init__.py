"""Limits of a node: budgets of bytes, and guards of connections."""
