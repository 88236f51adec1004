"""Rules that a history must keep, whether simulated or live."""
