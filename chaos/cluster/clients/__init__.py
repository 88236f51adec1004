"""Clients of a simulated cluster."""
