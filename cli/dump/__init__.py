"""`lograft dump-log`."""
