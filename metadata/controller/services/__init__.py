"""The gRPC services that a controller serves to brokers, admins and the quorum."""
