"""One replica of one partition: its role, its log, its waiters."""
