"""The shell that runs a core on an event loop, with its store, its transport and a state machine."""
