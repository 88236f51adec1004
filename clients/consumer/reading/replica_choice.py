"""From which broker a partition is read: the leader, or who is nearer. Pure."""

from collections.abc import Mapping

from lograft.clients.cluster.cluster_view import ClusterView

MOST_REFETCHES = 6
"""How often records that came damaged are fetched again, each time from another replica if there is one."""


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


def intact_source(
    view: ClusterView, topic_id: bytes, partition: int, preferred: int | None, damaged: Mapping[int, float]
) -> int | None:
    """The replica to read from once some gave damaged records: one that gave none, else the one that gave them longest
    ago; of equals `preferred`, then the leader. Return a follower in sync, or None for the leader. `damaged`: when
    brokers last gave such records."""
    leader = view.leader(topic_id, partition)
    if leader is None or leader.broker_id is None:
        return None
    in_sync = [each for each in sorted(view.in_sync(topic_id, partition)) if each in view.addresses]
    first = [] if preferred is None else [preferred]
    chosen = min(dict.fromkeys([*first, leader.broker_id, *in_sync]), key=lambda each: damaged.get(each, -1.0))
    return None if chosen == leader.broker_id else chosen
