"""Partition logs on disk: record batches, segments, indexes, recovery, retention and compaction.

`batch/` is the codec, `files/` the files of a segment, `log/` one partition's log and its data directory, `state/` the
small files beside a log, `cleaning/` retention and compaction, `inspect/` the dump. May import runtime/; clients see
only `batch`, `errors` and `inspect`. Start reading at `log/partition_log.py`, then `log/recovery.py`.
"""
