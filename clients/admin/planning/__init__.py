"""Plans of where leaders and replicas should be. Nothing here asks a cluster."""
