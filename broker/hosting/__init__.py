"""The logs of a broker: opening, closing, retention, compaction, disks."""
