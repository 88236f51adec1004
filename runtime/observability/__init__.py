"""Logs, metrics text and the HTTP server for them."""
