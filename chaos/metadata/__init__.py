"""The simulator of controllers and brokers."""
