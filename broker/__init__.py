"""The broker: partitions and their replication, the services for clients, group coordination, and the node.

Start with `node/node.py`, which composes a node, then `replica/replica.py` (a partition) and `replication/` (streams).
`replica/interfaces.py` and `replication/interfaces.py` state what services and streams need of a replica.
May import `metadata`, `raft`, `storage`, `rpc`, `runtime` and `proto`; `docs/replication.md` has the rules.
"""
