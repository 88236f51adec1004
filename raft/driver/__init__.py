"""The shell that runs the core: store, transport, proposals, reads."""
