"""The production implementations of the interfaces: gRPC, threads and the event loop."""
