"""What the Admin client returns, and how it is decoded."""
