"""Group membership: heartbeats, assignment, committed offsets."""
