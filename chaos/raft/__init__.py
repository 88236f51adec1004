"""The simulators of Raft: cores, messages, streams."""
