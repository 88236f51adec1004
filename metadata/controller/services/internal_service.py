"""The private service that controllers offer to brokers, except for the metadata stream (`metadata_publisher.py`)."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar
from uuid import UUID

from google.protobuf.message import Message

from lograft.metadata.controller.active_controller import ActiveController
from lograft.metadata.controller.broker_liveness import BrokerLiveness
from lograft.metadata.controller.services.heartbeat_service import HeartbeatService
from lograft.metadata.decisions.brokers.producer_ids import allocate_producer_ids
from lograft.metadata.decisions.brokers.registration import (
    DirectoryUse,
    Registration,
    latest_epoch,
    register,
    stale_directories,
    why_stale,
)
from lograft.metadata.decisions.brokers.report_failures import report_failures
from lograft.metadata.decisions.decision import Decision
from lograft.metadata.decisions.partitions.alter_isr import Alteration, Altered, IsrMember, alter_partitions
from lograft.metadata.decisions.topics.disk_room import FindRoom, nothing_reported
from lograft.metadata.decisions.topics.internal_topics import create_internal_topic
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerEpoch, BrokerId, LeaderEpoch, Partition, PartitionEpoch, TopicId
from lograft.proto import errors_pb2
from lograft.proto.controller_pb2 import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterPartitionsRequest,
    AlterPartitionsResponse,
    CreateInternalTopicRequest,
    CreateInternalTopicResponse,
    LatestEpochRequest,
    LatestEpochResponse,
    MetadataIndexRequest,
    MetadataIndexResponse,
    RegisterRequest,
    RegisterResponse,
    ReportFailuresRequest,
    ReportFailuresResponse,
)
from lograft.proto.methods import (
    ALLOCATE_PRODUCER_IDS,
    ALTER_PARTITIONS,
    BROKER_HEARTBEAT,
    CREATE_INTERNAL_TOPIC,
    LATEST_EPOCH,
    READ_INDEX,
    REGISTER,
    REPORT_FAILURES,
)
from lograft.rpc.coded_error import ControllerError
from lograft.rpc.request_limits import read_uuid
from lograft.rpc.status import detail_of, to_stream_error
from lograft.rpc.unary import unary
from lograft.runtime.clock import Clock
from lograft.runtime.network import Handler
from lograft.runtime.observability.logging import get_logger
from lograft.runtime.rng import Rng

log = get_logger(__name__)

Q = TypeVar("Q", bound=Message)


class ControllerService:
    """Served by every controller; methods that need the active one are refused by others with a hint.

    `addresses`: of the controllers, by id. One added later may be in no broker's configuration. `room`: reported full
    directories.
    """

    def __init__(
        self,
        clock: Clock,
        rng: Rng,
        cluster_id: str,
        active: ActiveController,
        sessions: BrokerLiveness,
        heartbeats: HeartbeatService,
        read_index: Callable[[], Awaitable[int]],
        addresses: Mapping[int, str],
        room: FindRoom = nothing_reported,
    ) -> None:
        self._clock = clock
        self._rng = rng
        self._cluster_id = cluster_id
        self._active = active
        self._sessions = sessions
        self._heartbeats = heartbeats
        self._read_index = read_index
        self._addresses = addresses
        self._room = room

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handlers, by method."""
        return {
            LATEST_EPOCH: self._unary(self._latest_epoch, LatestEpochRequest),
            REGISTER: self._unary(self._register, RegisterRequest),
            BROKER_HEARTBEAT: self._heartbeats.serve,
            ALTER_PARTITIONS: self._unary(self._alter_partitions, AlterPartitionsRequest),
            REPORT_FAILURES: self._unary(self._report_failures, ReportFailuresRequest),
            ALLOCATE_PRODUCER_IDS: self._unary(self._allocate_producer_ids, AllocateProducerIdsRequest),
            CREATE_INTERNAL_TOPIC: self._unary(self._create_internal_topic, CreateInternalTopicRequest),
            READ_INDEX: self._unary(self._serve_read_index, MetadataIndexRequest),
        }

    def _unary(self, handle: Callable[[Q], Awaitable[Message]], request_type: type[Q]) -> Handler:
        async def answer(request: Q) -> Message:
            try:
                return await handle(request)
            except ControllerError as error:
                address = self._addresses.get(error.leader_id) if error.leader_id is not None else None
                raise to_stream_error(error, leader_address=address) from None

        return unary(answer, request_type)

    async def _latest_epoch(self, request: LatestEpochRequest) -> LatestEpochResponse:
        check_cluster(self._cluster_id, request.cluster_id)
        broker_id = BrokerId(request.broker_id)
        committed = await self._active.submit(lambda image: Decision((), latest_epoch(image, broker_id)))
        return LatestEpochResponse(broker_epoch=committed.answer)

    async def _register(self, request: RegisterRequest) -> RegisterResponse:
        check_cluster(self._cluster_id, request.cluster_id)
        registration = Registration(
            broker_id=BrokerId(request.broker_id),
            incarnation=read_uuid(request.incarnation, "incarnation"),
            address=request.address,
            rack=request.rack if request.HasField("rack") else None,
            directories=tuple(read_uuid(directory, "directories") for directory in request.directories),
            boot_id=request.boot_id,
            clean_epoch=BrokerEpoch(request.clean_epoch) if request.HasField("clean_epoch") else None,
            min_feature_level=request.min_feature_level,
            max_feature_level=request.max_feature_level,
            nodes_address=request.nodes_address if request.HasField("nodes_address") else None,
            uses=tuple(_directory_use(use) for use in request.uses),
            version=request.version if request.HasField("version") else None,
        )
        previous_epoch = BrokerEpoch(request.previous_epoch) if request.HasField("previous_epoch") else None

        def decide(image: ClusterImage) -> Decision[tuple[BrokerEpoch, dict[UUID, str]]]:
            is_old_alive = self._is_alive(image, registration.broker_id)
            decision = register(image, registration, previous_epoch=previous_epoch, is_old_alive=is_old_alive)
            return Decision(decision.records, (decision.answer, _stale(image, registration)))

        committed = await self._active.submit(decide)
        epoch, stale = committed.answer
        log.info(
            "broker_registered", broker_id=request.broker_id, epoch=epoch, address=request.address,
            rack=registration.rack, directories=len(registration.directories), version=registration.version,
        )  # fmt: skip
        for directory, reason in stale.items():
            log.warning(
                "stale_directory", broker_id=request.broker_id, epoch=epoch, directory=str(directory), reason=reason
            )
        return RegisterResponse(
            broker_epoch=epoch, index=committed.index, stale_directories=[directory.bytes for directory in stale]
        )

    def _is_alive(self, image: ClusterImage, broker_id: BrokerId) -> bool:
        """Return whether the presently registered process is being heard."""
        broker = image.brokers.get(broker_id)
        return broker is not None and self._sessions.is_alive(broker_id, broker.epoch, self._clock.monotonic_ms())

    async def _alter_partitions(self, request: AlterPartitionsRequest) -> AlterPartitionsResponse:
        broker_id, epoch = BrokerId(request.broker_id), BrokerEpoch(request.broker_epoch)
        alterations = [_alteration(item) for item in request.items]
        committed = await self._active.submit(lambda image: alter_partitions(image, broker_id, epoch, alterations))
        response = AlterPartitionsResponse(index=committed.index)
        for altered in committed.answer:
            _fill_result(response.results.add(), altered)
        return response

    async def _report_failures(self, request: ReportFailuresRequest) -> ReportFailuresResponse:
        broker_id, epoch = BrokerId(request.broker_id), BrokerEpoch(request.broker_epoch)
        directories = [read_uuid(directory, "failed_directories") for directory in request.failed_directories]
        corrupt = [
            (TopicId(read_uuid(replica.topic_id, "topic_id")), replica.partition)
            for replica in request.corrupt_replicas
        ]
        committed = await self._active.submit(
            lambda image: report_failures(image, broker_id, epoch, directories, corrupt)
        )
        log.warning(
            "broker_reported_failures", broker_id=broker_id, directories=[str(directory) for directory in directories],
            corrupt_replicas=len(corrupt), reason=request.reason,
        )  # fmt: skip
        return ReportFailuresResponse(index=committed.index)

    async def _allocate_producer_ids(self, request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
        broker_id, epoch = BrokerId(request.broker_id), BrokerEpoch(request.broker_epoch)
        committed = await self._active.submit(lambda image: allocate_producer_ids(image, broker_id, epoch))
        return AllocateProducerIdsResponse(first=committed.answer.first, count=committed.answer.count)

    async def _create_internal_topic(self, request: CreateInternalTopicRequest) -> CreateInternalTopicResponse:
        broker_id, epoch = BrokerId(request.broker_id), BrokerEpoch(request.broker_epoch)
        topic_id = TopicId(read_uuid(request.topic_id, "topic_id"))
        committed = await self._active.submit(
            lambda image: create_internal_topic(
                image, broker_id, epoch, request.name, topic_id, self._rng, self._room(image)
            )
        )
        return CreateInternalTopicResponse(index=committed.index)

    async def _serve_read_index(self, _: MetadataIndexRequest) -> MetadataIndexResponse:
        return MetadataIndexResponse(index=await self._read_index())


def check_cluster(own: str, other: str) -> None:
    if other != own:
        raise ControllerError(
            errors_pb2.WRONG_CLUSTER, f"this controller belongs to cluster {own!r}, not {other!r}: check cluster_id"
        )


def _directory_use(use: RegisterRequest.DirectoryUse) -> DirectoryUse:
    used_epoch = BrokerEpoch(use.used_epoch) if use.HasField("used_epoch") else None
    damage = use.damage if use.HasField("damage") else None
    return DirectoryUse(read_uuid(use.directory_id, "uses"), used_epoch, use.is_restored, damage)


def _stale(image: ClusterImage, registration: Registration) -> dict[UUID, str]:
    """Return the stale directories and why they are."""
    reasons = {use.directory_id: why_stale(image, use) for use in registration.uses}
    return {directory: reasons[directory] or "" for directory in stale_directories(image, registration)}


def _alteration(item: AlterPartitionsRequest.Item) -> Alteration:
    return Alteration(
        TopicId(read_uuid(item.topic_id, "topic_id")),
        item.partition,
        LeaderEpoch(item.leader_epoch),
        PartitionEpoch(item.partition_epoch),
        tuple(
            IsrMember(
                BrokerId(member.broker_id),
                BrokerEpoch(member.broker_epoch),
                read_uuid(member.directory_id, "directory_id"),
            )
            for member in item.isr
        ),
    )


def _fill_result(result: AlterPartitionsResponse.Result, altered: Altered) -> None:
    result.topic_id = altered.topic_id.bytes
    result.partition = altered.number
    match altered.outcome:
        case ControllerError() as error:
            result.error.CopyFrom(detail_of(error))
        case Partition() as partition:
            result.leader_epoch = partition.leader_epoch
            result.partition_epoch = partition.partition_epoch
            result.isr.extend(partition.isr)
