"""The asyncio admin client: partitions, brokers and the quorum."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from lograft.clients.admin.model import codec
from lograft.clients.admin.model.types import (
    BrokerLoad,
    ConfigKind,
    Election,
    ElectionKind,
    PartitionVerification,
    QuorumDescription,
    QuorumMember,
    Reassignment,
    ReplicaDescription,
)
from lograft.clients.admin.replicas.load_lookup import find_load, live_brokers
from lograft.clients.admin.replicas.replica_lookup import find_replicas
from lograft.clients.admin.retrying_calls import R
from lograft.clients.admin.topic_admin import TopicAdmin
from lograft.clients.cluster.item_results import error_in
from lograft.clients.errors import LograftError, QuorumChangeNotNow, UnknownPartition, error_of
from lograft.clients.option_checks import check_integer
from lograft.clients.types import TopicPartition, check_topic
from lograft.proto import admin_pb2 as pb
from lograft.proto import methods

_REPLICAS_MS = 3000  # how long to wait for brokers to describe their replicas
_MOST_LOOKS = 10  # comparisons of copies that differ while the partition's replicas change

_QuorumRequest: TypeAlias = (
    pb.AddVoterRequest | pb.RemoveVoterRequest | pb.ReplaceVoterRequest | pb.TransferLeadershipRequest
)


class ClusterAdmin(TopicAdmin):
    # -- replicas

    async def describe_replicas(
        self, topics: Iterable[str] = (), *, include_internal: bool = False
    ) -> list[ReplicaDescription]:
        """Return the replicas that brokers store of these topics, or of all, ordered by partition. Skip brokers that
        do not answer within a few seconds."""
        cluster = self._open()
        described = await self.describe_cluster(topics, include_internal=include_internal)
        names = [topic.name for topic in described.topics]
        cluster.view.take_description(await self._describe(names, include_internal=True), names)
        hosts = {one: None for topic in described.topics for each in topic.partitions for one in each.replicas}
        return await find_replicas(cluster, hosts, names, _REPLICAS_MS)

    async def describe_load(self, topics: Iterable[str] = (), *, include_partitions: bool = True) -> list[BrokerLoad]:
        """Return each live broker's counters since it started, ordered by id; two answers give rates. Include the
        partitions of these topics, or all that had traffic. Skip brokers that do not answer within a few seconds.
        Raise `UnknownTopic` if a named topic does not exist."""
        topics = list(topics)
        for topic in topics:
            check_topic(topic)
        cluster, description = self._open(), await self._describe(topics, include_internal=False)
        for described in description.topics:
            codec.read_topic(described)
        cluster.view.take_description(description, topics)
        return await find_load(
            cluster, live_brokers(description), topics, _REPLICAS_MS, include_partitions=include_partitions
        )

    async def verify_replicas(
        self, topics: Iterable[str] = (), *, include_internal: bool = False
    ) -> list[PartitionVerification]:
        """Verify each partition of these topics, or of all, as `verify_partition` does."""
        described = await self.describe_cluster(topics, include_internal=include_internal)
        return [
            await self.verify_partition(topic.name, partition.number)
            for topic in described.topics
            for partition in topic.partitions
        ]

    async def verify_partition(self, topic: str, number: int) -> PartitionVerification:
        """Compare the copies of the partition that the in-sync brokers have on disk. A broker whose copy turns out to
        be damaged refetches it."""
        from lograft.clients.admin.replicas.replica_verification import (
            verify_copies,  # rarely needed, and much to import
        )

        policy = (await self.describe_config(ConfigKind.TOPIC, topic, ["cleanup.policy"]))[0].value or ""
        partition = TopicPartition(topic, number)

        async def describe() -> list[ReplicaDescription]:
            return [each for each in await self.describe_replicas([topic]) if each.partition == partition]

        found, epoch, damaged, left_out = None, -1, dict[int, None](), tuple[int, ...]()
        for _ in range(_MOST_LOOKS):
            described = await self.describe_topic(topic)
            if number >= len(described.partitions):
                raise UnknownPartition(f"topic {topic!r} has no partition {number}")
            now = described.partitions[number]
            # A broker that was in sync may have begun to refetch everything: a difference only counts if the partition
            # did not change meanwhile.
            if found is not None:
                left_out = tuple(broker for broker in now.replicas if broker not in found.brokers)
                if found.is_same or epoch == now.partition_epoch:
                    return replace(found, damaged=tuple(damaged), left_out=left_out)
            epoch = now.partition_epoch
            found = await verify_copies(
                self._open(), described.id.bytes, partition, now.isr, describe, is_compacted="compact" in policy
            )
            damaged |= dict.fromkeys(found.damaged)
        assert found is not None
        problem = "its replicas came and went all the while: try again"
        return replace(found, offset=None, problem=problem, damaged=tuple(damaged), left_out=left_out)

    # -- partitions

    async def reassign(
        self, targets: Mapping[tuple[str, int], Sequence[int] | None], *, validate_only: bool = False
    ) -> dict[tuple[str, int], LograftError | None]:
        """Move partitions to these brokers, the preferred leader first; None cancels a move. Return the error of each
        refused move, by partition; the other moves have begun.

        If an error's `outcome_unknown` is true, the moves may have begun: check before you repeat it. The client
        does not repeat it, because that could undo another client's later request.
        """
        items = [
            pb.AlterReassignmentsRequest.Item(
                partition=codec.write_partition(partition),
                replicas=codec.write_brokers(replicas or ()),
                cancel=replicas is None,
            )
            for partition, replicas in targets.items()
        ]
        results = await self._each(
            methods.ALTER_REASSIGNMENTS,
            items,
            lambda asked: pb.AlterReassignmentsRequest(items=asked, validate_only=validate_only),
            pb.AlterReassignmentsResponse,
            repeatable=validate_only,
        )
        return {partition: error_in(result) for partition, result in zip(targets, results, strict=True)}

    async def list_reassignments(self, topics: Iterable[str] = ()) -> list[Reassignment]:
        """Return the moves under way, of these topics or of all."""
        names = list(topics)
        for name in names:
            check_topic(name)
        request = pb.ListReassignmentsRequest(topics=[pb.TopicReference(name=name) for name in names])
        response = await self._call(methods.LIST_REASSIGNMENTS, request, pb.ListReassignmentsResponse)
        for refused in response.errors:
            raise error_of(refused.error)
        return [codec.read_reassignment(reassignment) for reassignment in response.reassignments]

    async def elect_leaders(
        self, kind: ElectionKind = ElectionKind.PREFERRED, partitions: Iterable[tuple[str, int]] | None = None
    ) -> list[Election]:
        """Elect leaders for these partitions, or for all that need one. The client does not repeat an unclean election
        whose answer is lost, because each one may lose records."""
        request = pb.ElectLeadersRequest(
            kind=codec.ELECTION_KINDS[kind],
            all_partitions=partitions is None,
            partitions=[codec.write_partition(partition) for partition in partitions or ()],
        )
        response = await self._call(
            methods.ELECT_LEADERS, request, pb.ElectLeadersResponse, repeatable=kind is ElectionKind.PREFERRED
        )
        return [codec.read_election(result) for result in response.results]

    # -- brokers and the quorum

    async def unregister_broker(self, broker_id: int) -> None:
        """Remove a broker from the cluster permanently. It must be stopped and have no replicas."""
        check_integer("broker_id", broker_id, 0)
        request = pb.UnregisterBrokerRequest(broker_id=broker_id)
        # A repeated request would be refused as if the first had failed.
        await self._call(methods.UNREGISTER_BROKER, request, pb.UnregisterBrokerResponse, repeatable=False)

    async def describe_quorum(self) -> QuorumDescription:
        """Return the controllers and how much of the log each has."""
        request = pb.DescribeQuorumRequest()
        return codec.read_quorum(await self._call(methods.DESCRIBE_QUORUM, request, pb.DescribeQuorumResponse))

    async def add_voter(self, node_id: int) -> tuple[QuorumMember, ...]:
        """Make a running controller a voter. Return the quorum after the change."""
        return await self._change_quorum(methods.ADD_VOTER, pb.AddVoterRequest, node_id)

    async def remove_voter(self, node_id: int) -> tuple[QuorumMember, ...]:
        """Remove a voter. Return the quorum after the change."""
        return await self._change_quorum(methods.REMOVE_VOTER, pb.RemoveVoterRequest, node_id)

    async def replace_voter(self, node_id: int) -> tuple[QuorumMember, ...]:
        """Replace a voter that lost its disk with its new incarnation. Return the quorum after the change."""
        return await self._change_quorum(methods.REPLACE_VOTER, pb.ReplaceVoterRequest, node_id)

    async def transfer_leadership(self, node_id: int) -> int:
        """Make another voter the active controller. Return the id of the active controller."""
        check_integer("node_id", node_id, 0)
        request = pb.TransferLeadershipRequest(node_id=node_id)
        response = await self._when_possible(
            methods.TRANSFER_LEADERSHIP, request, pb.TransferLeadershipResponse, repeatable=True
        )
        return response.leader_id

    async def _change_quorum(
        self,
        method: str,
        request_type: type[pb.AddVoterRequest] | type[pb.RemoveVoterRequest] | type[pb.ReplaceVoterRequest],
        node_id: int,
    ) -> tuple[QuorumMember, ...]:
        check_integer("node_id", node_id, 0)
        response = await self._when_possible(
            method, request_type(node_id=node_id), pb.QuorumChangeResponse, repeatable=False
        )
        return codec.read_members(response.members)

    async def _when_possible(
        self, method: str, request: _QuorumRequest, response_type: type[R], *, repeatable: bool
    ) -> R:
        """Retry until the quorum can make the change, and return its answer. Each attempt carries the remaining time,
        so it ends with an answer, and the last attempt's answer is the outcome."""
        cluster = self._open()
        async with self._within(method) as deadline:
            await cluster.identify()

            async def attempt() -> R:
                try:
                    return await cluster.call_any(
                        method,
                        request,
                        response_type,
                        repeatable=repeatable,
                        attempt_ms=self._timeout_ms,
                        deadline=deadline,
                        answers=QuorumChangeNotNow,
                    )
                except QuorumChangeNotNow as refusal:
                    self._tell_refused(refusal)
                    raise

            return await self._retrying_in_time(on=QuorumChangeNotNow)(attempt)
