"""Clients' operations and their results, as entries that checkers read."""
