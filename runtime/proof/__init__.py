"""Mutual proof between nodes that they belong to the cluster."""
