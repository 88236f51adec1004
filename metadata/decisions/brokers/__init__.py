"""Decisions about brokers: registration, fencing, failures, producer ids."""
