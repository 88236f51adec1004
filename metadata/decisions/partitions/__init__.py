"""Decisions about partitions: ISR, leaders, reassignment."""
