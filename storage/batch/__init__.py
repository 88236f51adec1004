"""The record batch codec: rows, columns, compression, Arrow."""
