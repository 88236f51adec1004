"""How nodes prove to each other that they belong to the cluster."""
