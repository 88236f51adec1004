"""Commands that are one module each."""
