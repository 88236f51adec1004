"""Requests that each broker answers for itself: replicas, load, digests."""
