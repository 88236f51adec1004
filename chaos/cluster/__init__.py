"""The simulator of whole clusters with clients."""
