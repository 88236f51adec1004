"""Membership of a group: heartbeats, assignment, committed offsets."""
