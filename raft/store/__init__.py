"""The Raft store on LMDB: log, hard state, snapshot, and the openings of stores."""
