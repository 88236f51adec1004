"""Writing: the Produce stream, admission, back-pressure."""
