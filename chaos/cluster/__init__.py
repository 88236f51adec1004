"""The simulator of complete clusters with clients."""
