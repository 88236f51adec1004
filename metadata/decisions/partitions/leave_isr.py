"""A broker leaves ISRs: because it is fenced, restarted, or lost a replica. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from lograft.metadata.config.effective_settings import effective_min_isr
from lograft.metadata.image.broker import Broker
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerId, Partition, TopicId
from lograft.metadata.image.partition_transition import Conditions, renew, settle
from lograft.metadata.image.records import PartitionChanged

Hosted = tuple[TopicId, int, Partition]


def leave_isrs(
    image: ClusterImage,
    broker_id: BrokerId,
    hosted: Iterable[Hosted],
    brokers: Mapping[BrokerId, Broker],
    *,
    is_data_lost: bool = False,
) -> Iterator[PartitionChanged]:
    """Return the changes of `hosted` partitions. `brokers`: as they are once this is applied.

    `is_data_lost`: the broker's data no longer counts, so the broker is not eligible to lead either.
    """
    dropped = (broker_id,) if is_data_lost else ()
    for topic_id, number, partition in hosted:
        if broker_id not in partition.isr and not is_data_lost:
            continue
        wanted = replace(partition, isr=tuple(member for member in partition.isr if member != broker_id))
        conditions = Conditions(brokers, effective_min_isr(image, topic_id, partition))
        after = settle(partition, wanted, conditions, dropped=dropped)
        if after is partition and is_data_lost:
            # Its leader may be about to ask that it join, by what it acknowledged before: that request must fail.
            after = renew(partition)
        if after is not partition:
            yield PartitionChanged(topic_id, number, after)
