"""A broker reports what it lost: a directory that failed, replicas that are corrupt. Pure."""

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
    """Those replicas leave their ISRs, and what they led gets another leader, in one operation.

    A directory that failed may come back with a later registration: what was eligible to lead stays so, tied to it.
    What is corrupt counts for nothing any more, and its partition gets another epoch even if it did not count before:
    its leader may be asking to have it in the ISR at this moment, by what it had until now. Reports of what is not
    there, or not any more, are passed over: they may have crossed a deletion or a move.
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
