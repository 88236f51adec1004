"""Logs, metrics text and the HTTP server that shows them."""
