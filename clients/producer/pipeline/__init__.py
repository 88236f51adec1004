"""From `send` to the broker: partitions, batches, streams."""
