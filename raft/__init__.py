"""Consensus: the Raft core (pure), its store on LMDB, the driver that runs it, the transport between nodes."""
