"""The path from `send` to the broker: partitioning, batching, streams."""
