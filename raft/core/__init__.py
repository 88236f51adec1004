"""The Raft algorithm without IO: messages, ticks and proposals in, a `Ready` out."""
