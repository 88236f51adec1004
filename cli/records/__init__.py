"""`lograft produce` and `lograft consume`."""
