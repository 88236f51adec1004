"""A node's limits: byte budgets, and limits of connections."""
