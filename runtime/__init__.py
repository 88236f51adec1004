"""The outside world as small interfaces, and their production implementations.

The modules at the top are the interfaces: `clock`, `rng`, `files`, `blocking`, `network`; `world.Runtime` bundles them.
`production/`, `disk/` and `proof/` implement them. `limits/` bounds a node's resources, `tasks/` helps with asyncio,
`process/` and `observability/` serve programs, `faults/` serves chaos tests. May import proto/. Start at `world.py`.

Import the module you need (`lograft.runtime.files`, `.network`, ...). The package itself imports nothing, so that a
program that needs only a clock does not load gRPC.
"""
