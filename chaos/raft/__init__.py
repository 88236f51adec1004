"""Simulators of Raft: of bare cores, of single messages, and of streams."""
