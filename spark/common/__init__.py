"""What readers and writers share: options, offsets, access to a cluster."""
