"""Shared by all services of a broker: statistics, slow requests, errors, limits."""
