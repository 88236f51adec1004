"""Nodes and weather of a simulated cluster."""
