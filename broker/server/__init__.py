"""Smaller services: plain records, offsets, load, digests, replicas."""
