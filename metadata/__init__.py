"""The cluster's metadata: what it is (image, records), who decides it (the controller), and how brokers follow it."""
