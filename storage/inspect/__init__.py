"""Reading log files without a broker: `lograft dump-log` and digests."""
