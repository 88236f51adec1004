"""What users hold: the command line, and the client library as it grows."""
