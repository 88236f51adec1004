"""What a node measures, as Prometheus families."""
