"""Shared by readers and writers: options, offsets, access to a cluster."""
