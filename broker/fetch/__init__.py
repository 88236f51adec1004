"""Reading: the Fetch stream of consumers, and ReadRange of Spark."""
