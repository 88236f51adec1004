"""Simulator of controllers and brokers."""
