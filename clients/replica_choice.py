"""From which broker a partition is read: the leader, or who is nearer. Pure."""

from lograft.clients.cluster_view import ClusterView


def near_follower(view: ClusterView, topic_id: bytes, partition: int, rack: str | None) -> int | None:
    """A follower in sync that is in the reader's rack, if the leader is not. Partitions take turns among several."""
    leader = view.leader(topic_id, partition)
    if rack is None or leader is None or leader.broker_id is None or view.racks.get(leader.broker_id) == rack:
        return None
    near = [
        broker_id
        for broker_id in sorted(view.in_sync(topic_id, partition))
        if view.racks.get(broker_id) == rack and broker_id in view.addresses
    ]
    return near[partition % len(near)] if near else None
