"""Commands that consist of one module each."""
