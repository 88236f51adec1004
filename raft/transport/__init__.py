"""Messages between members over streams."""
