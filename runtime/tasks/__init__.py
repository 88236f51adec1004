"""Helpers for asyncio tasks: deadlines, retries, cancellation, silence."""
