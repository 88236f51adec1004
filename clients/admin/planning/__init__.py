"""Plans for placing leaders and replicas. Nothing here talks to a cluster."""
