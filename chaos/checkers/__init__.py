"""Rules that every history must obey, simulated or live."""
