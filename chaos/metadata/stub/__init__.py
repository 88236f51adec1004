"""Brokers without a disk, for the metadata simulator."""
