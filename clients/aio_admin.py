"""The admin client, for asyncio."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar
from uuid import UUID

from google.protobuf.message import Message

from lograft.clients import admin_codec as codec
from lograft.clients import methods
from lograft.clients.admin_types import (
    ClusterDescription,
    ConfigEntry,
    ConfigKind,
    CreatedTopic,
    Election,
    ElectionKind,
    NewTopic,
    PartitionVerification,
    QuorumDescription,
    QuorumMember,
    Reassignment,
    ReplicaDescription,
    TopicDescription,
)
from lograft.clients.bootstrap import parse_bootstrap
from lograft.clients.client_task import open_runtime
from lograft.clients.cluster_client import ClusterClient, ClusterTimes
from lograft.clients.errors import ClientClosed, LograftError, UnknownPartition, error_of
from lograft.clients.option_checks import check_integer
from lograft.clients.replica_lookup import find_replicas
from lograft.clients.replica_verification import verify_copies
from lograft.clients.topic_partition import TopicPartition, check_topic
from lograft.proto import admin_pb2 as pb
from lograft.proto import cluster_pb2
from lograft.proto.errors_pb2 import ErrorDetail
from lograft.runtime.client_runtime import close_client_runtime
from lograft.runtime.retrying import Backoff
from lograft.runtime.world import Runtime

__all__ = ["Admin"]

DEFAULT_TIMEOUT_MS = 30_000
# For the controllers to confirm that an answer is the latest; then what a broker knows has to do.
_CONFIRM_MS = 3000
# For leaders to say where their partitions start and end.
_REPLICAS_MS = 3000
_MOST_LOOKS = 10  # at copies that differ, but whose replicas change, too
_ATTEMPT_MS = 10_000
_MAX_TIMEOUT_MS = 2**53
_MAX_SERVER_TIMEOUT_MS = 300_000  # brokers take no longer one
_FIRST_RETRY_MS = 50
_LAST_RETRY_MS = 1000

R = TypeVar("R", bound=Message)
Item = TypeVar("Item")


class _Result(Protocol):
    """Of one item of a request."""

    @property
    def error(self) -> ErrorDetail: ...

    def HasField(self, field_name: Any, /) -> bool: ...


Result = TypeVar("Result", bound=_Result)


class Admin:
    """Looks at the cluster, and changes it. Whatever can be tried again is, within `timeout_ms`; but a cluster of which
    nobody was ever reached is not looked for longer than `first_contact_ms`.

    async with Admin("localhost:9092") as admin:
        await admin.create_topic("orders", partitions=6, replicas=3)
    """

    def __init__(
        self,
        bootstrap: str | Iterable[str],
        *,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
        first_contact_ms: int | None = None,
        runtime: Runtime | None = None,
    ) -> None:
        check_integer("timeout_ms", timeout_ms, 1, _MAX_TIMEOUT_MS)
        self._bootstrap = parse_bootstrap(bootstrap)
        self._timeout_ms = timeout_ms
        self._times = ClusterTimes(first_contact_ms=first_contact_ms)
        self._given_runtime = runtime
        self._runtime: Runtime
        self._cluster: ClusterClient | None = None

    # -- life

    async def start(self) -> None:
        """Begin; `async with` does it. Nothing is connected before it is needed."""
        if self._cluster is not None:
            return
        self._runtime = open_runtime(self._given_runtime)
        self._cluster = ClusterClient(self._runtime, self._bootstrap, self._times)

    async def close(self) -> None:
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            await cluster.close()
            if self._given_runtime is None:
                await close_client_runtime(self._runtime)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    # -- looking

    async def describe_cluster(
        self, topics: Iterable[str] = (), *, include_internal: bool = False
    ) -> ClusterDescription:
        """Brokers, and these topics; all, if none are named. `UnknownTopic` for one that there is none of."""
        topics = list(topics)
        for topic in topics:
            check_topic(topic)
        description = await self._describe(topics, include_internal)
        return codec.read_cluster(description)

    async def list_topics(self, *, include_internal: bool = False) -> list[str]:
        return [topic.name for topic in (await self.describe_cluster(include_internal=include_internal)).topics]

    async def describe_topic(self, name: str) -> TopicDescription:
        return (await self.describe_cluster([name])).topics[0]

    async def describe_replicas(
        self, topics: Iterable[str] = (), *, include_internal: bool = False
    ) -> list[ReplicaDescription]:
        """What brokers have of the partitions of these topics, or of all: in the order of the partitions. Brokers that
        do not answer in a few seconds are left out."""
        cluster = self._open()
        described = await self.describe_cluster(topics, include_internal=include_internal)
        names = [topic.name for topic in described.topics]
        cluster.view.take_description(await self._describe(names, include_internal=True), names)
        hosts = {one: None for topic in described.topics for each in topic.partitions for one in each.replicas}
        return await find_replicas(cluster, hosts, names, _REPLICAS_MS)

    async def verify_replicas(
        self, topics: Iterable[str] = (), *, include_internal: bool = False
    ) -> list[PartitionVerification]:
        """Each partition of these topics, or of all, as `verify_partition` does."""
        described = await self.describe_cluster(topics, include_internal=include_internal)
        return [
            await self.verify_partition(topic.name, partition.number)
            for topic in described.topics
            for partition in topic.partitions
        ]

    async def verify_partition(self, topic: str, number: int) -> PartitionVerification:
        """Compare what the brokers in sync have of the partition on their disks. A damaged copy that is met is made
        anew by its broker."""
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
            # Who was in sync may have begun to copy everything anew: a difference counts if nothing changed meanwhile.
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

    async def _describe(self, topics: Iterable[str], include_internal: bool) -> cluster_pb2.ClusterDescription:
        """The latest there is, or what a broker knows if no controller can be asked."""
        request = cluster_pb2.DescribeRequest(topics=topics, include_internal=include_internal, linearizable=True)
        cluster, method, answer = self._open(), methods.DESCRIBE_CLUSTER, cluster_pb2.ClusterDescription
        async with cluster.within(self._timeout_ms, "nothing could be learnt of the cluster"):
            try:
                async with asyncio.timeout(min(_CONFIRM_MS, self._timeout_ms / 2) / 1000):
                    return await cluster.call_any(method, request, answer, repeatable=True)
            except TimeoutError:
                request.linearizable = False
                return await cluster.call_any(method, request, answer, repeatable=True)

    # -- topics

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int | None = None,
        replicas: int | None = None,
        config: Mapping[str, str] | None = None,
        assignments: Sequence[Sequence[int]] = (),
        validate_only: bool = False,
    ) -> CreatedTopic:
        """`validate_only`: check all, change nothing."""
        topic = NewTopic(name, partitions, replicas, config or {}, assignments)
        return _only(await self.create_topics([topic], validate_only=validate_only))

    async def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False
    ) -> list[CreatedTopic | LograftError]:
        """What came of each, in order. One that fails changes nothing, and does not keep the others from it."""
        # An id of our own: a request that was carried out and is sent again finds its own topic.
        items = [codec.write_new_topic(topic, self._rng.uuid()) for topic in topics]
        results = await self._each(
            methods.CREATE_TOPICS,
            items,
            lambda asked: pb.CreateTopicsRequest(
                topics=asked, validate_only=validate_only, timeout_ms=self._server_timeout_ms
            ),
            pb.CreateTopicsResponse,
        )
        return [_created(result) for result in results]

    async def delete_topic(self, name: str) -> None:
        _only(await self.delete_topics([name]))

    async def delete_topics(self, names: Iterable[str]) -> list[str | LograftError]:
        """What came of each, in order: its name, or why it is still there."""
        names = list(names)
        for name in names:
            check_topic(name)
        described = {topic.name: topic for topic in (await self._describe(names, include_internal=False)).topics}
        # By id: a topic that is created anew under the name meanwhile is not what was meant.
        items = [pb.TopicReference(name=name, topic_id=described[name].id) for name in names]
        results = await self._each(
            methods.DELETE_TOPICS,
            items,
            lambda asked: pb.DeleteTopicsRequest(topics=asked, timeout_ms=self._server_timeout_ms),
            pb.DeleteTopicsResponse,
        )
        return [_deleted(name, result) for name, result in zip(names, results, strict=True)]

    async def create_partitions(self, topic: str, total: int, *, validate_only: bool = False) -> int:
        """See to it that the topic has `total` partitions; how many it has. A topic cannot lose partitions."""
        check_topic(topic)
        check_integer("total", total, 1)
        items = [pb.CreatePartitionsRequest.Item(topic=pb.TopicReference(name=topic), total=total)]
        results = await self._each(
            methods.CREATE_PARTITIONS,
            items,
            lambda asked: pb.CreatePartitionsRequest(
                items=asked, validate_only=validate_only, timeout_ms=self._server_timeout_ms
            ),
            pb.CreatePartitionsResponse,
        )
        return int(_checked(results[0]).partitions)

    # -- configuration

    async def describe_config(self, kind: ConfigKind, name: str = "", keys: Iterable[str] = ()) -> list[ConfigEntry]:
        """What is in force for a topic, a broker (its id) or the cluster, and where it comes from."""
        items = [pb.DescribeConfigsRequest.Item(resource=_resource(kind, name), keys=keys)]
        results = await self._each(
            methods.DESCRIBE_CONFIGS,
            items,
            lambda asked: pb.DescribeConfigsRequest(items=asked),
            pb.DescribeConfigsResponse,
        )
        return [codec.read_config(value) for value in _checked(results[0]).values]

    async def alter_config(
        self, kind: ConfigKind, name: str, changes: Mapping[str, str | None], *, validate_only: bool = False
    ) -> None:
        """Set keys, all or none of them; None unsets one. Others stay as they are."""
        codec.write_config({key: "" if value is None else value for key, value in changes.items()})
        item = pb.AlterConfigsRequest.Item(
            resource=_resource(kind, name),
            changes=[pb.AlterConfigsRequest.Change(key=key, value=value) for key, value in changes.items()],
        )
        results = await self._each(
            methods.ALTER_CONFIGS,
            [item],
            lambda asked: pb.AlterConfigsRequest(
                items=asked, validate_only=validate_only, timeout_ms=self._server_timeout_ms
            ),
            pb.AlterConfigsResponse,
        )
        _checked(results[0])

    # -- partitions

    async def reassign(
        self, targets: Mapping[tuple[str, int], Sequence[int] | None], *, validate_only: bool = False
    ) -> dict[tuple[str, int], LograftError | None]:
        """Move partitions to these brokers, the preferred leader first; None: go back to the ones before. What was
        refused, by partition; the others have begun."""
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
            lambda asked: pb.AlterReassignmentsRequest(
                items=asked, validate_only=validate_only, timeout_ms=self._server_timeout_ms
            ),
            pb.AlterReassignmentsResponse,
        )
        return {partition: _error_in(result) for partition, result in zip(targets, results, strict=True)}

    async def list_reassignments(self, topics: Iterable[str] = ()) -> list[Reassignment]:
        """Those under way; of all topics, if none are named."""
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
        """Of these partitions, or of all that need it."""
        request = pb.ElectLeadersRequest(
            kind=codec.ELECTION_KINDS[kind],
            all_partitions=partitions is None,
            partitions=[codec.write_partition(partition) for partition in partitions or ()],
            timeout_ms=self._server_timeout_ms,
        )
        response = await self._call(methods.ELECT_LEADERS, request, pb.ElectLeadersResponse)
        return [codec.read_election(result) for result in response.results]

    # -- brokers and the quorum

    async def unregister_broker(self, broker_id: int) -> None:
        """Forget a broker for good. It must be stopped, and have no replicas."""
        check_integer("broker_id", broker_id, 0)
        request = pb.UnregisterBrokerRequest(broker_id=broker_id, timeout_ms=self._server_timeout_ms)
        await self._call(methods.UNREGISTER_BROKER, request, pb.UnregisterBrokerResponse)

    async def describe_quorum(self) -> QuorumDescription:
        request = pb.DescribeQuorumRequest()
        return codec.read_quorum(await self._call(methods.DESCRIBE_QUORUM, request, pb.DescribeQuorumResponse))

    async def add_voter(self, node_id: int) -> tuple[QuorumMember, ...]:
        """Make a controller, which is running, a voter. The quorum as it is then."""
        return await self._change_quorum(methods.ADD_VOTER, pb.AddVoterRequest, node_id)

    async def remove_voter(self, node_id: int) -> tuple[QuorumMember, ...]:
        return await self._change_quorum(methods.REMOVE_VOTER, pb.RemoveVoterRequest, node_id)

    async def replace_voter(self, node_id: int) -> tuple[QuorumMember, ...]:
        """For a controller that lost its disk: its old self is removed, and the new one added."""
        return await self._change_quorum(methods.REPLACE_VOTER, pb.ReplaceVoterRequest, node_id)

    async def transfer_leadership(self, node_id: int) -> int:
        """Make another voter the active controller; who is."""
        check_integer("node_id", node_id, 0)
        request = pb.TransferLeadershipRequest(node_id=node_id, timeout_ms=self._server_timeout_ms)
        return (await self._call(methods.TRANSFER_LEADERSHIP, request, pb.TransferLeadershipResponse)).leader_id

    async def _change_quorum(
        self,
        method: str,
        request_type: type[pb.AddVoterRequest] | type[pb.RemoveVoterRequest] | type[pb.ReplaceVoterRequest],
        node_id: int,
    ) -> tuple[QuorumMember, ...]:
        check_integer("node_id", node_id, 0)
        request = request_type(node_id=node_id, timeout_ms=min(self._timeout_ms, _MAX_SERVER_TIMEOUT_MS))
        response = await self._call(method, request, pb.QuorumChangeResponse, repeatable=False)
        return codec.read_members(response.members)

    # -- asking

    @property
    def _server_timeout_ms(self) -> int:
        """How long one broker may try what can be asked of another, too."""
        return min(self._timeout_ms, _ATTEMPT_MS)

    @property
    def _rng(self) -> Any:
        self._open()
        return self._runtime.rng

    def _open(self) -> ClusterClient:
        if self._cluster is None:
            raise ClientClosed("the admin client is not open: use `async with`, or await start()")
        return self._cluster

    async def _call(self, method: str, request: Message, response_type: type[R], *, repeatable: bool = True) -> R:
        cluster = self._open()
        async with cluster.within(self._timeout_ms, f"{method.rpartition('/')[2]} got no answer"):
            attempt_ms = self._server_timeout_ms if repeatable else self._timeout_ms
            return await cluster.call_any(method, request, response_type, repeatable=repeatable, attempt_ms=attempt_ms)

    async def _each(
        self,
        method: str,
        items: Sequence[Item],
        request_of: Callable[[Sequence[Item]], Message],
        response_type: type[R],
    ) -> list[Any]:
        """The result of each item. Those that are refused for now are asked for again, until there is no more time."""
        cluster = self._open()
        backoff = Backoff(self._runtime.rng, _FIRST_RETRY_MS, _LAST_RETRY_MS)
        results: dict[int, Any] = {}
        waiting = list(range(len(items)))
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                while waiting:
                    request = request_of([items[number] for number in waiting])
                    response: Any = await cluster.call_any(
                        method, request, response_type, repeatable=True, attempt_ms=self._server_timeout_ms
                    )
                    results.update(zip(waiting, response.results, strict=True))
                    waiting = [number for number in waiting if _is_retriable(results[number])]
                    if waiting:
                        await self._runtime.clock.sleep_ms(backoff.next_ms())
        except TimeoutError:
            if len(results) < len(items):
                raise cluster.late(self._timeout_ms, f"{method.rpartition('/')[2]} got no answer") from None
        return [results[number] for number in range(len(items))]


def _resource(kind: ConfigKind, name: str) -> pb.ConfigResource:
    return pb.ConfigResource(kind=codec.CONFIG_KINDS[kind], name=name)


def _error_in(result: _Result) -> LograftError | None:
    return error_of(result.error) if result.HasField("error") else None


def _is_retriable(result: _Result) -> bool:
    error = _error_in(result)
    return error is not None and error.retriable


def _checked(result: Result) -> Result:
    error = _error_in(result)
    if error is not None:
        raise error
    return result


def _only(results: Sequence[Item | LograftError]) -> Item:
    (result,) = results
    if isinstance(result, LograftError):
        raise result
    return result


def _created(result: pb.CreateTopicsResponse.Result) -> CreatedTopic | LograftError:
    error = _error_in(result)
    if error is not None:
        return error
    return CreatedTopic(result.name, UUID(bytes=result.topic_id), result.partitions, result.replication_factor)


def _deleted(name: str, result: pb.DeleteTopicsResponse.Result) -> str | LograftError:
    return _error_in(result) or name
