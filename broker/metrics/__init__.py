"""A node's metrics, as Prometheus families."""
