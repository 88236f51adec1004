"""Calls between processes: unary calls, coded errors, request limits, health checking and reflection.

Shared by metadata/, broker/ and clients/, so that none of them imports another for plumbing.
May import proto/ and runtime/. Start reading at `unary`: one request, one answer or one coded error.
"""
