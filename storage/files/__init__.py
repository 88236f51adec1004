"""The files of a segment: batches, offset index, time index."""
