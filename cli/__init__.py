"""The command line: what people at a terminal, and scripts, use.

May import clients/ and `storage.inspect`. Start reading at `main`, which lists the commands; a command's module is
imported when the command is used.
"""
