"""Reading records: fetch streams, credit, positions, decoding."""
