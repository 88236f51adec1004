"""The record batch codec: rows, columns, compression, Arrow. Start at `codec.py`; `docs/format.md` specifies the
bytes."""
