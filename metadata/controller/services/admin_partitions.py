"""Bulk changes of partitions, requested together and made in one operation: read, decide, answer. Pure.

Refused partitions are among the results, in the order of the request; the others are changed all the same.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from lograft.metadata.controller.services.admin_codec import (
    describe_progress,
    find_topic_id,
    name_partition,
    read_brokers,
    refused,
)
from lograft.metadata.decisions.bulk_change import PartitionResult, known_partition
from lograft.metadata.decisions.checks import known_topic
from lograft.metadata.decisions.decision import Decision
from lograft.metadata.decisions.partitions.elect_leaders import elect_preferred, elect_unclean_leaders
from lograft.metadata.decisions.partitions.log_ends import LogEnds
from lograft.metadata.decisions.partitions.reassignment import Reassignment, list_reassignments, reassign
from lograft.metadata.decisions.topics.disk_room import ROOM_EVERYWHERE, DiskRoom
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import Partition, PartitionKey, TopicId
from lograft.metadata.image.records import PartitionChanged, Record
from lograft.proto import admin_pb2 as pb
from lograft.rpc.coded_error import ControllerError
from lograft.rpc.status import detail_of

Item = TypeVar("Item")
Read = TypeVar("Read")


def _read_each(items: Iterable[Item], read: Callable[[Item], Read]) -> list[Read | ControllerError]:
    """Return what each item requests, or the error of an invalid item."""
    outcomes: list[Read | ControllerError] = []
    for item in items:
        try:
            outcomes.append(read(item))
        except ControllerError as error:
            outcomes.append(error)
    return outcomes


# -- reassignments


def decide_reassign(
    image: ClusterImage, items: Sequence[pb.AlterReassignmentsRequest.Item], room: DiskRoom = ROOM_EVERYWHERE
) -> Decision[pb.AlterReassignmentsResponse]:
    asked = _read_each(items, lambda item: _read_reassignment(image, item))
    decision = reassign(image, [request for request in asked if isinstance(request, Reassignment)], room)
    errors = {(result.topic_id, result.number): result.error for result in decision.answer}
    answer = pb.AlterReassignmentsResponse()
    for item, request in zip(items, asked, strict=True):
        result = answer.results.add(partition=item.partition)
        if isinstance(request, Reassignment):
            result.partition.CopyFrom(name_partition(image, request.topic_id, request.number))
            error = errors[request.topic_id, request.number]
        else:
            error = request
        if error is not None:
            result.error.CopyFrom(detail_of(error))
    return Decision(decision.records, answer)


def _read_reassignment(image: ClusterImage, item: pb.AlterReassignmentsRequest.Item) -> Reassignment:
    if item.cancel and item.replicas:
        raise refused("replicas together with `cancel`: give one of the two")
    target = None if item.cancel else read_brokers(item.replicas)
    return Reassignment(*_find_partition(image, item.partition), target)


def decide_list_reassignments(
    image: ClusterImage, request: pb.ListReassignmentsRequest
) -> Decision[pb.ListReassignmentsResponse]:
    answer = pb.ListReassignmentsResponse()
    topic_ids: list[TopicId] = []
    for reference in request.topics:
        try:
            topic_ids.append(known_topic(image, find_topic_id(image, reference)).topic_id)
        except ControllerError as error:
            answer.errors.add(topic=reference, error=detail_of(error))
    found = list_reassignments(image, topic_ids if request.topics else None)
    answer.reassignments.extend([describe_progress(image, progress) for progress in found])
    return Decision((), answer)


# -- elections


@dataclass(frozen=True, slots=True)
class ElectedAll:
    """The results of elections in all partitions that need one. One operation holds a limited number: unless
    `is_complete`, there may be more."""

    results: Mapping[PartitionKey, pb.ElectLeadersResponse.Result]
    is_complete: bool


def check_election(request: pb.ElectLeadersRequest) -> None:
    if request.kind not in (pb.ElectLeadersRequest.PREFERRED, pb.ElectLeadersRequest.UNCLEAN):
        raise refused("say by `kind` which election is meant: PREFERRED or UNCLEAN")
    if request.all_partitions == bool(request.partitions):
        raise refused("say which partitions are meant: either list them, or set `all_partitions`")


def decide_elect_listed(
    image: ClusterImage, request: pb.ElectLeadersRequest, log_ends: LogEnds, room: DiskRoom = ROOM_EVERYWHERE
) -> Decision[pb.ElectLeadersResponse]:
    asked = _read_each(request.partitions, lambda reference: _find_partition(image, reference))
    keys = [key for key in asked if not isinstance(key, ControllerError)]
    decision = _elect(image, request, keys, log_ends, room)
    results = {(result.topic_id, result.number): result for result in decision.answer}
    after = _partitions_in(decision.records)
    answer = pb.ElectLeadersResponse()
    for reference, key in zip(request.partitions, asked, strict=True):
        if isinstance(key, ControllerError):
            answer.results.add(partition=reference, error=detail_of(key))
        else:
            answer.results.append(_election_result(image, after, results[key]))
    return Decision(decision.records, answer)


def decide_elect_all(
    image: ClusterImage, request: pb.ElectLeadersRequest, log_ends: LogEnds, room: DiskRoom = ROOM_EVERYWHERE
) -> Decision[ElectedAll]:
    decision = _elect(image, request, None, log_ends, room)
    after = _partitions_in(decision.records)
    results = {(result.topic_id, result.number): _election_result(image, after, result) for result in decision.answer}
    return Decision(decision.records, ElectedAll(results, is_complete=not decision.records))


def _elect(
    image: ClusterImage,
    request: pb.ElectLeadersRequest,
    keys: list[PartitionKey] | None,
    log_ends: LogEnds,
    room: DiskRoom,
) -> Decision[tuple[PartitionResult, ...]]:
    check_election(request)
    if request.kind == pb.ElectLeadersRequest.PREFERRED:
        return elect_preferred(image, keys, room)
    return elect_unclean_leaders(image, keys, log_ends)


def _election_result(
    image: ClusterImage, after: dict[PartitionKey, Partition], result: PartitionResult
) -> pb.ElectLeadersResponse.Result:
    """Return the result with the leader after the election, elected or not."""
    key = result.topic_id, result.number
    partition = after.get(key) or image.partition(*key)
    answer = pb.ElectLeadersResponse.Result(partition=name_partition(image, *key))
    if partition is not None:
        answer.leader_epoch = partition.leader_epoch
        if partition.leader is not None:
            answer.leader = partition.leader
    if result.error is not None:
        answer.error.CopyFrom(detail_of(result.error))
    return answer


def _find_partition(image: ClusterImage, reference: pb.PartitionReference) -> PartitionKey:
    key = find_topic_id(image, reference.topic), reference.partition
    known_partition(image, *key)
    return key


def _partitions_in(records: Iterable[Record]) -> dict[PartitionKey, Partition]:
    return {
        (record.topic_id, record.number): record.partition for record in records if isinstance(record, PartitionChanged)
    }
