"""The production side of the interfaces: gRPC, threads and the event loop."""
