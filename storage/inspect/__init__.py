"""Log files decoded without a broker, for `lograft dump-log` and digests."""
