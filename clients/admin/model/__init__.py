"""The types that the Admin client takes and returns, and their codec."""
