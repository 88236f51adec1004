"""The Consumer."""
