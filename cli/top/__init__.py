"""`lograft top`."""
