"""One partition's log: append, read, truncate, recover. Start at `partition_log.py`."""
