"""What bounds a node: budgets of bytes, connections and idle time."""
