"""Questions that every broker answers for itself: replicas, load, digests."""
