"""The logs of a broker: opening, closing, retention, compaction, failed disks."""
