"""The smaller services: plain records, offsets, load, digests, replicas."""
