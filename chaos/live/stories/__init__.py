"""The stories that `lograft chaos run` can tell."""
