"""The partition log: record batches, segments, indexes, recovery, retention and compaction."""
