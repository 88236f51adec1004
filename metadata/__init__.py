"""The cluster's metadata: the image (pure), the controller that decides its changes, and the brokers' copy of it.

Start with `image/cluster_image.py` and `decisions/decision.py`, then `controller/active_controller.py`.
`controller_node.py` composes a controller, `membership/cluster_membership.py` a broker's side.
May import `raft`, `rpc`, `runtime` and `proto`; `docs/metadata.md` explains the whole.
"""
