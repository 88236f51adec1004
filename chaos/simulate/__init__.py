"""`lograft chaos simulate`: run whole clusters on virtual time, each from a seed, and shrink the runs that fail."""
