"""The command line: what people at a terminal, and scripts, use."""
