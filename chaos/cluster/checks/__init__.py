"""Checks during and after a simulated run of a cluster."""
