"""Whether a broker does all that is expected of it. Pure."""

from lograft.metadata.image.broker import BrokerState
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerId

_SHOWN = 3


def why_not_ready(image: ClusterImage, broker_id: BrokerId, state: BrokerState) -> str | None:
    """None if the broker is ready: unfenced, and in the ISR of each own partition that has a leader; but for those that
    a reassignment is about to give it, which may take days. `state` is what the active controller last said of it."""
    if state is BrokerState.SHUTTING_DOWN:
        return "shutting down"
    if state is not BrokerState.ACTIVE:
        return "fenced: the active controller does not take this broker for a live one yet"
    behind = [
        f"{image.topics[topic_id].name}-{number}"
        for topic_id, number, partition in image.hosted_by(broker_id)
        if partition.leader is not None and broker_id not in partition.isr and broker_id not in partition.adding
    ]
    if not behind:
        return None
    more = f" and {len(behind) - _SHOWN} more" if len(behind) > _SHOWN else ""
    return f"catching up with {len(behind)} of its partitions: {', '.join(sorted(behind)[:_SHOWN])}{more}"
