"""The outside world as small interfaces, and their production side.

Import the module you need (`lograft.runtime.files`, `.network`, ...): this package imports nothing by itself,
so that who wants a clock does not wait for gRPC.
"""
