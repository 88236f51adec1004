"""Output of resources as tables, JSON, YAML and names, once or watched."""
