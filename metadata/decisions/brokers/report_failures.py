"""Failures that a broker reports: a failed directory, corrupt replicas. Pure."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from uuid import UUID

from lograft.metadata.decisions.checks import check_broker_epoch
from lograft.metadata.decisions.decision import Decision
from lograft.metadata.decisions.partitions.leave_isr import Hosted, leave_isrs
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerEpoch, BrokerId, TopicId
from lograft.metadata.image.records import BrokerRegistered, Record


def report_failures(
    image: ClusterImage,
    broker_id: BrokerId,
    epoch: BrokerEpoch,
    directories: Collection[UUID],
    corrupt: Sequence[tuple[TopicId, int]],
) -> Decision[None]:
    """Remove those replicas from their ISRs and elect other leaders where they led, in one operation.

    A failed directory may return with a later registration: its replicas that were eligible to lead stay so, tied to
    it. A corrupt replica no longer counts, and its partition gets another epoch even if the replica did not count
    before: its leader may be asking at this moment to have it in the ISR. Reports of unknown replicas are ignored: they
    may have crossed a deletion or a move.
    """
    broker = check_broker_epoch(image, broker_id, epoch)
    failed = [directory for directory in broker.directories if directory in directories]
    remaining = replace(broker, directories=tuple(one for one in broker.directories if one not in failed))
    brokers = {**image.brokers, broker_id: remaining}

    corrupt_keys = dict.fromkeys(corrupt)
    rotten: list[Hosted] = []
    away: list[Hosted] = []
    for hosted in image.hosted_by(broker_id):
        topic_id, number, partition = hosted
        if (topic_id, number) in corrupt_keys:
            rotten.append(hosted)
        elif partition.directory_of(broker_id) in failed:
            away.append(hosted)

    records: list[Record] = [BrokerRegistered(remaining)] if failed else []
    records.extend(leave_isrs(image, broker_id, away, brokers))
    records.extend(leave_isrs(image, broker_id, rotten, brokers, is_data_lost=True))
    return Decision(tuple(records), None)
