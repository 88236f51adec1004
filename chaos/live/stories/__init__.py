"""The stories that `lograft chaos run` knows."""
