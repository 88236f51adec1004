"""The outside world as small interfaces, and their production side.

The modules at the top are the interfaces: `clock`, `rng`, `files`, `blocking`, `network`; `world.Runtime` bundles them.
`production/`, `disk/` and `proof/` implement them, `limits/` bounds a node, `tasks/` helps with asyncio, `process/` and
`observability/` serve a program, `faults/` serves chaos tests. May import proto/. Start reading at `world.py`.

Import the module you need (`lograft.runtime.files`, `.network`, ...): the package itself imports nothing, so that a
program that needs a clock does not wait for gRPC.
"""
