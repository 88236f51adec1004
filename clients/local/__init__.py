"""Clusters of real processes on this machine, for `lograft dev` and `lograft.testing`."""
