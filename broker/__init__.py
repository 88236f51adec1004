"""The broker: partitions, replication, what clients ask of it, and the node that it is part of."""
