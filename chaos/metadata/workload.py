"""Requests of operators in a simulated cluster, and checks that acknowledged requests took effect."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from lograft.chaos.harness.outcome import Outcome
from lograft.chaos.harness.schedule import Detail
from lograft.chaos.metadata.client import SimulatedClient
from lograft.chaos.metadata.rules.facts import Facts, PartitionKey
from lograft.chaos.metadata.rules.invariants import MetadataInvariants
from lograft.chaos.metadata.rules.partition_rules import require
from lograft.chaos.metadata.weather import MetadataWeather
from lograft.metadata.image.cluster_image import Topic
from lograft.metadata.image.partition import BrokerId, Partition, TopicId
from lograft.proto import admin_pb2 as pb
from lograft.proto import methods
from lograft.proto.cluster_pb2 import ClusterDescription, DescribeRequest
from lograft.rpc.coded_error import ControllerError
from lograft.runtime.network import ConnectFailed
from lograft.runtime.rng import Rng

_NAMES = 12
_READ_MS = 3_000


class WorkloadTarget(Protocol):
    weather: MetadataWeather
    facts: Facts
    invariants: MetadataInvariants
    broker_ids: list[BrokerId]

    def note(self, event: str, *details: Detail) -> None: ...


class Workload:
    """Makes random requests on behalf of operators, records their outcomes, and checks them."""

    def __init__(self, stage: WorkloadTarget, rng: Rng) -> None:
        self._stage = stage
        self._rng = rng
        self._is_over = False
        self.counts: Counter[str] = Counter()
        self._created: dict[TopicId, Outcome] = {}
        self._rehearsed: dict[TopicId, None] = {}
        self._delete_attempts: dict[TopicId, None] = {}
        self._deleted: dict[TopicId, None] = {}
        self._values: dict[str, Outcome] = {}
        self._wishes: dict[str, Callable[[SimulatedClient], Awaitable[Outcome | None]]] = {
            "create": self._create,
            "delete": self._delete,
            "add_partitions": self._add_partitions,
            "set_min_isr": self._set_min_isr,
            "set_cluster_min_isr": self._set_cluster_min_isr,
            "set_retention": self._set_retention,
            "reassign": self._reassign,
            "cancel": self._cancel,
            "elect_preferred": self._elect_preferred,
            "elect_unclean": self._elect_unclean,
            "unregister": self._unregister,
            "read": self._read,
        }

    def stop(self) -> None:
        """Make no more requests."""
        self._is_over = True

    async def run(self, client: SimulatedClient) -> None:
        while not self._is_over:
            await asyncio.sleep(self._rng.uniform(*self._stage.weather.think_ms) / 1000)
            if not self._is_over:
                wish = self._rng.choice(self._stage.weather.wishes)
                outcome = await self._wishes[wish](client)
                if outcome is not None:
                    self.counts[f"{wish} {outcome.value}"] += 1

    # -- topics

    async def _create(self, client: SimulatedClient) -> Outcome | None:
        stage, rng = self._stage, self._rng
        if len(stage.invariants.image.topics) >= stage.weather.topics:
            return None
        topic_id, name = TopicId(rng.uuid()), f"topic{rng.randrange(_NAMES)}"
        topic = pb.NewTopic(name=name, topic_id=topic_id.bytes)
        if rng.random() < 0.3:
            stage.facts.chosen_topics[topic_id] = None
            factor = rng.randint(1, min(3, len(stage.broker_ids)))
            for _ in range(rng.randint(1, 3)):
                topic.assignments.add(broker_ids=rng.sample(stage.broker_ids, factor))
        else:
            topic.partitions, topic.replication_factor = (
                rng.randint(1, 3),
                rng.choice(stage.weather.replication_factors),
            )
        if rng.random() < stage.weather.os_flush_probability:
            topic.configs["flush.mode"] = "os"
        if rng.random() < stage.weather.unclean_probability:
            topic.configs["unclean.leader.election.enable"] = "true"
        is_rehearsal = rng.random() < 0.1
        if is_rehearsal:
            self._rehearsed[topic_id] = None
        request = pb.CreateTopicsRequest(topics=[topic], validate_only=is_rehearsal, timeout_ms=2_000)
        answer = await client.ask(methods.CREATE_TOPICS, request, pb.CreateTopicsResponse, _first_error)
        self._note("create", name, topic_id, answer.outcome, answer.error)
        if not is_rehearsal:
            self._created[topic_id] = answer.outcome
            if answer.outcome is Outcome.OK:
                self._require_created(topic_id)
        return answer.outcome

    def _require_created(self, topic_id: TopicId) -> None:
        created = topic_id in self._stage.invariants.created
        require(created, "acknowledged is committed", "topic", topic_id, "was never created")

    async def _delete(self, client: SimulatedClient) -> Outcome | None:
        topic = self._any_topic()
        return await self._drop(client, topic) if topic is not None else None

    async def _drop(self, client: SimulatedClient, topic: Topic) -> Outcome:
        topic_id = topic.topic_id
        self._delete_attempts[topic_id] = None
        request = pb.DeleteTopicsRequest(topics=[_reference(topic)], timeout_ms=2_000)
        answer = await client.ask(methods.DELETE_TOPICS, request, pb.DeleteTopicsResponse, _first_error)
        self._note("delete", topic.name, topic_id, answer.outcome, answer.error)
        if answer.outcome is Outcome.OK:
            deleted = topic_id in self._stage.invariants.deleted
            require(deleted, "acknowledged is committed", "topic", topic_id, "was never deleted")
            self._deleted[topic_id] = None
        return answer.outcome

    async def _add_partitions(self, client: SimulatedClient) -> Outcome | None:
        topic = self._any_topic()
        if topic is None or len(topic.partitions) >= 4:
            return None
        request = pb.CreatePartitionsRequest(timeout_ms=2_000)
        request.items.add(topic=_reference(topic), total=len(topic.partitions) + 1)
        answer = await client.ask(methods.CREATE_PARTITIONS, request, pb.CreatePartitionsResponse, _first_error)
        self._note("add_partition", topic.name, topic.topic_id, answer.outcome, answer.error)
        return answer.outcome

    # -- settings

    async def _set_min_isr(self, client: SimulatedClient) -> Outcome | None:
        topic = self._any_topic()
        if topic is None:
            return None
        value = self._rng.choice([None, "1", "2", "3"])
        resource = pb.ConfigResource(kind=pb.ConfigResource.TOPIC, topic_id=topic.topic_id.bytes)
        return await self._alter(client, resource, topic.name, "min.insync.replicas", value)

    async def _set_cluster_min_isr(self, client: SimulatedClient) -> Outcome | None:
        resource = pb.ConfigResource(kind=pb.ConfigResource.CLUSTER)
        return await self._alter(client, resource, "all", "min.insync.replicas", self._rng.choice([None, "1", "2"]))

    async def _set_retention(self, client: SimulatedClient) -> Outcome | None:
        """Set a unique value, which identifies this change."""
        topic = self._any_topic()
        if topic is None:
            return None
        value = str(1_000_000 + len(self._values))
        self._values[value] = Outcome.UNKNOWN
        resource = pb.ConfigResource(kind=pb.ConfigResource.TOPIC, topic_id=topic.topic_id.bytes)
        outcome = await self._alter(client, resource, topic.name, "retention.ms", value)
        self._values[value] = outcome
        is_set = value in self._stage.invariants.config_values
        require(outcome is not Outcome.OK or is_set, "acknowledged is committed", "retention.ms", value)
        return outcome

    async def _alter(
        self, client: SimulatedClient, resource: pb.ConfigResource, name: str, key: str, value: str | None
    ) -> Outcome:
        request = pb.AlterConfigsRequest(timeout_ms=2_000)
        request.items.add(resource=resource, changes=[pb.AlterConfigsRequest.Change(key=key, value=value)])
        answer = await client.ask(methods.ALTER_CONFIGS, request, pb.AlterConfigsResponse, _first_error)
        self._note("configure", f"{name} {key}={value}", None, answer.outcome, answer.error)
        return answer.outcome

    # -- partitions

    async def _reassign(self, client: SimulatedClient) -> Outcome | None:
        if (found := self._any_partition()) is None:
            return None
        key, partition = found
        return await self._move(client, key, self._target(partition))

    async def _move(self, client: SimulatedClient, key: PartitionKey, target: tuple[int, ...]) -> Outcome:
        self._stage.facts.targets[key, target] += 1
        request = pb.AlterReassignmentsRequest(timeout_ms=2_000)
        request.items.add(partition=_partition_reference(key), replicas=target)
        answer = await client.ask(methods.ALTER_REASSIGNMENTS, request, pb.AlterReassignmentsResponse, _first_error)
        self._note("reassign", f"{key[1]} to {target}", key[0], answer.outcome, answer.error)
        if answer.outcome is Outcome.FAIL:
            self._stage.facts.targets[key, target] -= 1
        return answer.outcome

    def _target(self, partition: Partition) -> tuple[int, ...]:
        rng, brokers = self._rng, self._stage.broker_ids
        match rng.randrange(4):
            case 0:  # the same replicas, in another order
                return tuple(rng.sample(partition.final_replicas, len(partition.final_replicas)))
            case 1:  # one replica replaced
                others = [broker for broker in brokers if broker not in partition.final_replicas]
                if others:
                    return (*partition.final_replicas[1:], rng.choice(others))
        return tuple(rng.sample(brokers, rng.randint(1, min(3, len(brokers)))))

    async def _cancel(self, client: SimulatedClient) -> Outcome | None:
        if (found := self._any_partition(lambda partition: partition.is_reassigning)) is None:
            return None
        key, _ = found
        self._stage.facts.cancels[key] += 1
        request = pb.AlterReassignmentsRequest(timeout_ms=2_000)
        request.items.add(partition=_partition_reference(key), cancel=True)
        answer = await client.ask(methods.ALTER_REASSIGNMENTS, request, pb.AlterReassignmentsResponse, _first_error)
        self._note("cancel", str(key[1]), key[0], answer.outcome, answer.error)
        if answer.outcome is Outcome.FAIL:
            self._stage.facts.cancels[key] -= 1
        return answer.outcome

    async def _elect_preferred(self, client: SimulatedClient) -> Outcome | None:
        if (found := self._any_partition()) is None:
            return None
        return await self._elect(client, found[0], pb.ElectLeadersRequest.PREFERRED)

    async def _elect_unclean(self, client: SimulatedClient) -> Outcome | None:
        if (found := self._any_partition(lambda partition: partition.leader is None)) is None:
            return None
        return await self._give_up(client, found[0])

    async def rescue(self, client: SimulatedClient, key: PartitionKey) -> None:
        """Give a partition without a complete copy a leader: the replica with the most data. If no copy is left, add
        another broker. If there is none, eventually delete the topic."""
        if await self._give_up(client, key) is Outcome.OK:
            return
        topic = self._stage.invariants.image.topics[key[0]]
        replicas = topic.partitions[key[1]].final_replicas
        others = [broker for broker in self._stage.broker_ids if broker not in replicas]
        if others:
            await self._move(client, key, (*replicas, self._rng.choice(others)))
        elif self._rng.random() < 0.3:  # some brokers may not have reported their logs yet
            await self._drop(client, topic)

    async def _give_up(self, client: SimulatedClient, key: PartitionKey) -> Outcome:
        self._stage.facts.unclean_elections[key] += 1
        outcome = await self._elect(client, key, pb.ElectLeadersRequest.UNCLEAN)
        if outcome is Outcome.FAIL:
            self._stage.facts.unclean_elections[key] -= 1
        return outcome

    async def _elect(self, client: SimulatedClient, key: PartitionKey, kind: pb.ElectLeadersRequest.Kind) -> Outcome:
        request = pb.ElectLeadersRequest(kind=kind, partitions=[_partition_reference(key)], timeout_ms=2_000)
        answer = await client.ask(methods.ELECT_LEADERS, request, pb.ElectLeadersResponse, _first_error)
        name = pb.ElectLeadersRequest.Kind.Name(kind).lower()
        self._note(f"elect_{name}", str(key[1]), key[0], answer.outcome, answer.error)
        return answer.outcome

    async def _unregister(self, client: SimulatedClient) -> Outcome | None:
        broker_id = self._rng.choice(self._stage.broker_ids)
        self._stage.facts.unregistrations[broker_id] += 1
        request = pb.UnregisterBrokerRequest(broker_id=broker_id, timeout_ms=2_000)
        answer = await client.ask(methods.UNREGISTER_BROKER, request, pb.UnregisterBrokerResponse)
        self._note("unregister", str(broker_id), None, answer.outcome, answer.error)
        if answer.outcome is Outcome.FAIL:
            self._stage.facts.unregistrations[broker_id] -= 1
        return answer.outcome

    # -- reads

    async def _read(self, client: SimulatedClient) -> Outcome | None:
        """Check that a linearizable read includes everything acknowledged before it."""
        must_be = [topic for topic, outcome in self._created.items() if outcome is Outcome.OK]
        must_not_be = list(self._deleted)
        try:
            async with asyncio.timeout(_READ_MS / 1000):
                description = await client.ask_node(
                    client.any_node(), methods.DESCRIBE_CLUSTER, DescribeRequest(linearizable=True),
                    ClusterDescription,
                )  # fmt: skip
        except (TimeoutError, ConnectFailed, ControllerError):
            return Outcome.FAIL
        seen = {topic.id: topic for topic in description.topics}
        for topic_id in must_be:
            is_seen = topic_id.bytes in seen or topic_id in self._delete_attempts
            require(is_seen, "what was acknowledged is seen", "not", topic_id, "at", description.metadata_index)
        for topic_id in must_not_be:
            is_gone = topic_id.bytes not in seen
            require(is_gone, "what was deleted is not seen", topic_id, "at", description.metadata_index)
        return Outcome.OK

    # -- final checks

    def check_all(self) -> None:
        """Check that everything acknowledged took effect, and nothing refused did."""
        invariants = self._stage.invariants
        for topic_id, outcome in self._created.items():
            was_created = topic_id in invariants.created
            is_there = topic_id in invariants.image.topics
            if outcome is Outcome.OK:
                kept = is_there or topic_id in self._delete_attempts
                require(kept, "nothing acknowledged is missing", "topic", topic_id)
            if outcome is Outcome.FAIL:
                # A retry of a creation that succeeded is refused if the topic was deleted meanwhile.
                nothing = not was_created or topic_id in self._delete_attempts
                require(nothing, "what is refused changes nothing", "topic", topic_id, "was created")
        for topic_id in self._rehearsed:
            require(topic_id not in invariants.created, "a rehearsal changes nothing", topic_id)
        for topic_id in self._deleted:
            require(topic_id not in invariants.image.topics, "what is deleted stays so", topic_id)
        for value, outcome in self._values.items():
            was_set = value in invariants.config_values
            nothing = outcome is not Outcome.FAIL or not was_set
            require(nothing, "what is refused changes nothing", f"retention.ms {value} was set")

    # -- selection

    def _any_topic(self) -> Topic | None:
        topics = list(self._stage.invariants.image.topics.values())
        return self._rng.choice(topics) if topics else None

    def _any_partition(
        self, suits: Callable[[Partition], bool] = lambda partition: True
    ) -> tuple[PartitionKey, Partition] | None:
        found = [
            ((topic.topic_id, number), partition)
            for topic in self._stage.invariants.image.topics.values()
            for number, partition in topic.partitions.items()
            if suits(partition)
        ]
        return self._rng.choice(found) if found else None

    def _note(
        self, wish: str, what: str, topic_id: TopicId | None, outcome: Outcome, error: ControllerError | None
    ) -> None:
        topic = str(topic_id)[:4] if topic_id is not None else ""
        self._stage.note(wish, topic, what, outcome.value, error.message if error is not None else "")


def _first_error(response: Any) -> Any:
    return response.results[0].error if response.results[0].HasField("error") else None


def _reference(topic: Topic) -> pb.TopicReference:
    return pb.TopicReference(topic_id=topic.topic_id.bytes)


def _partition_reference(key: PartitionKey) -> pb.PartitionReference:
    return pb.PartitionReference(topic=pb.TopicReference(topic_id=key[0].bytes), partition=key[1])
