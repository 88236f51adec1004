"""One partition log: append, read, truncate, recover."""
