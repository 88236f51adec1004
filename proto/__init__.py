"""The wire: .proto files, the code generated from them, and the error-code table."""
