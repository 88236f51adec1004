"""lograft beside its peers: one harness, the same workloads, taken in turns. `make bench-compare`."""
