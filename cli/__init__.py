"""The `lograft` command line, for people and scripts.

May import clients/ and `storage.inspect`. Start reading at `main`, which lists the commands. Folders import downwards:
commands, top, declarative, operations, resources, output, common. A command's module is imported when the command is
used.
"""
