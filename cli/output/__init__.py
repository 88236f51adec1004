"""Tables, JSON, YAML, names, and watching."""
