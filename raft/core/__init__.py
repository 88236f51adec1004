"""The Raft algorithm as pure functions of state and message."""
