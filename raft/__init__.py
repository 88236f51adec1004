"""The consensus algorithm that replicates the cluster's metadata: a pure core, and what runs it.

`core/` decides, `driver/` carries its decisions out, `store/` keeps the log on LMDB, `transport/` connects the members,
`bootstrap/` handles the first start of a quorum. May import proto/ and runtime/. Start reading at `core/raft_core.py`,
then `driver/raft_node.py`; `docs/raft.md` maps the papers to the code.
"""
