"""Retention and compaction, which remove records from a log."""
