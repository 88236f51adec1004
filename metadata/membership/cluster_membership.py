"""A broker's membership in the cluster: its session, the metadata that it follows, and its requests to the controller.

membership = ClusterMembership(runtime, {1: "host1:9093", ...}, cluster_id, registration, log_ends)
server = await runtime.network.serve(address, membership.handlers(), on_panic)
group.create_task(membership.run())
await membership.until_registered()
membership.session.set_wanted(Wanted.READY)         # once the logs are recovered
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from uuid import UUID

from lograft.metadata.decisions.brokers.producer_ids import ProducerIdBlock
from lograft.metadata.decisions.brokers.registration import Registration
from lograft.metadata.decisions.partitions.alter_isr import Alteration
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerEpoch, TopicId
from lograft.metadata.membership.admin_forwarding import AdminForwarding
from lograft.metadata.membership.auto_create_topics import create_topics
from lograft.metadata.membership.broker_session import BrokerSession, FullDirectory, ReplicaEnd, SessionHooks
from lograft.metadata.membership.cluster_service import ClusterService
from lograft.metadata.membership.controller_client import ControllerClient
from lograft.metadata.membership.metadata_follower import MetadataFollower
from lograft.proto.controller_pb2 import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterPartitionsRequest,
    AlterPartitionsResponse,
    CreateInternalTopicRequest,
    CreateInternalTopicResponse,
    MetadataIndexRequest,
    MetadataIndexResponse,
    ReportFailuresRequest,
    ReportFailuresResponse,
)
from lograft.proto.methods import (
    ALLOCATE_PRODUCER_IDS,
    ALTER_PARTITIONS,
    CREATE_INTERNAL_TOPIC,
    READ_INDEX,
    REPORT_FAILURES,
)
from lograft.runtime.network import Handler
from lograft.runtime.world import Runtime


class ClusterMembership:
    """The membership of one process. `run` ends only with an error or when cancelled; calls wait for an answer, for as
    long as the caller lets them."""

    def __init__(
        self,
        runtime: Runtime,
        controllers: Mapping[int, str],
        cluster_id: str,
        registration: Registration,
        log_ends: Callable[[], Iterable[ReplicaEnd]],
        full_directories: Callable[[], Iterable[FullDirectory] | None] = lambda: None,
    ) -> None:
        self._registration = registration
        self._rng = runtime.rng
        self.follower = MetadataFollower(runtime, controllers, cluster_id, registration.broker_id)
        self.client = ControllerClient(runtime, controllers)
        ports = SessionHooks(
            lambda: self.follower.index,
            log_ends,
            self.follower.commit_index_heard,
            self.follower.learn,
            full_directories,
        )
        self.session = BrokerSession(runtime, self.client, controllers, cluster_id, registration, ports)
        self._forwarding = AdminForwarding(runtime, self.client)
        self._cluster = ClusterService(
            runtime,
            self.follower,
            cluster_id,
            self.latest_index,
            lambda: self.client.active_id,
            partial(create_topics, self.client, runtime.rng),
        )

    @property
    def image(self) -> ClusterImage:
        return self.follower.image

    @property
    def broker_epoch(self) -> BrokerEpoch:
        return self.session.broker_epoch

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handlers of requests that any broker answers, or forwards to its controller, by method."""
        return {**self._cluster.handlers(), **self._forwarding.handlers()}

    async def run(self) -> None:
        """Follow the metadata and keep the session. Raise `ControllerError` when the broker has lost its place in the
        cluster."""
        try:
            async with asyncio.TaskGroup() as group:
                following = group.create_task(self.follower.run(), name="metadata-follower")
                try:
                    await self.session.run()
                finally:
                    following.cancel()
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None
        finally:
            await self.client.close()

    async def until_registered(self) -> None:
        """Return when this process is registered and the image has the registration."""
        await self.session.wait_until(lambda: self.session.is_registered)
        await self.follower.wait_for(self.session.registration_index)

    # -- what it asks of the controller

    async def alter_partitions(self, alterations: Sequence[Alteration]) -> AlterPartitionsResponse:
        """Ask for other ISRs of partitions that this broker leads. Take the result from the image once it is at the
        answer's index: there it comes in order with all other changes. CONTROLLER_MOVED: the request may have been
        carried out, or may be yet, even if the next attempt is refused, until the partition epoch changes."""
        request = AlterPartitionsRequest(broker_id=self._registration.broker_id, broker_epoch=self.session.broker_epoch)
        for alteration in alterations:
            item = request.items.add(
                topic_id=alteration.topic_id.bytes,
                partition=alteration.number,
                leader_epoch=alteration.leader_epoch,
                partition_epoch=alteration.partition_epoch,
            )
            for member in alteration.isr:
                item.isr.add(
                    broker_id=member.broker_id,
                    broker_epoch=member.broker_epoch,
                    directory_id=member.directory_id.bytes,
                )
        # Not repeatable: if the first attempt was carried out, a second one is refused, and a leader that takes the
        # refusal for the answer no longer counts on a member that is in the ISR.
        return await self.client.call(ALTER_PARTITIONS, request, AlterPartitionsResponse)

    async def report_failures(
        self, directories: Iterable[UUID], corrupt: Iterable[tuple[TopicId, int]], reason: str
    ) -> int:
        """Report failed directories and corrupt replicas. Return the index by which the replicas have left: only then
        may they be discarded."""
        request = ReportFailuresRequest(
            broker_id=self._registration.broker_id,
            broker_epoch=self.session.broker_epoch,
            failed_directories=[directory.bytes for directory in directories],
            reason=reason,
        )
        for topic_id, number in corrupt:
            request.corrupt_replicas.add(topic_id=topic_id.bytes, partition=number)
        return (await self.client.call(REPORT_FAILURES, request, ReportFailuresResponse, repeatable=True)).index

    async def allocate_producer_ids(self) -> ProducerIdBlock:
        """Return ids that no other broker has. Allocated ids whose answer was lost are never used."""
        # Clients may ask as soon as there is an address to ask at.
        await self.session.wait_until(lambda: self.session.is_registered)
        request = AllocateProducerIdsRequest(
            broker_id=self._registration.broker_id, broker_epoch=self.session.broker_epoch
        )
        answer = await self.client.call(ALLOCATE_PRODUCER_IDS, request, AllocateProducerIdsResponse, repeatable=True)
        return ProducerIdBlock(answer.first, answer.count)

    async def create_internal_topic(self, name: str) -> None:
        """Create the topic unless it exists. Return when the image has it."""
        await self.session.wait_until(lambda: self.session.is_registered)
        request = CreateInternalTopicRequest(
            broker_id=self._registration.broker_id,
            broker_epoch=self.session.broker_epoch,
            name=name,
            topic_id=self._rng.uuid().bytes,
        )
        answer = await self.client.call(CREATE_INTERNAL_TOPIC, request, CreateInternalTopicResponse, repeatable=True)
        await self.follower.wait_for(answer.index)

    async def catch_up(self) -> None:
        """Return when the image has everything that was committed anywhere before this call."""
        await self.follower.wait_for(await self.latest_index())

    async def latest_index(self) -> int:
        """Return an index by which everything committed anywhere before this call is applied."""
        answer = await self.client.call(READ_INDEX, MetadataIndexRequest(), MetadataIndexResponse, repeatable=True)
        return answer.index
