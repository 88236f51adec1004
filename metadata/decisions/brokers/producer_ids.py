"""Allocation of producer ids to brokers, which assign them to producers. Pure."""

from dataclasses import dataclass

from lograft.metadata.decisions.checks import check_broker_epoch
from lograft.metadata.decisions.decision import Decision
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerEpoch, BrokerId
from lograft.metadata.image.records import ProducerIdsAllocated

PRODUCER_IDS_PER_BLOCK = 1000

_LAST_PRODUCER_ID = 2**63 - 1  # what a batch's header can hold


@dataclass(frozen=True, slots=True)
class ProducerIdBlock:
    """The ids from `first` on. No other broker, and no other process of this one, ever gets them."""

    first: int
    count: int


def allocate_producer_ids(
    image: ClusterImage, broker_id: BrokerId, broker_epoch: BrokerEpoch
) -> Decision[ProducerIdBlock]:
    """Return the next block. A retry gets another one: a lost answer costs ids, not their uniqueness."""
    check_broker_epoch(image, broker_id, broker_epoch)
    first = image.next_producer_id
    next_id = first + PRODUCER_IDS_PER_BLOCK
    assert next_id <= _LAST_PRODUCER_ID, "all producer ids are given out"
    return Decision((ProducerIdsAllocated(next_id),), ProducerIdBlock(first, PRODUCER_IDS_PER_BLOCK))
