"""Retention and compaction: what is removed from a log, and when."""
