"""The asyncio admin client: topics and configuration."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from lograft.clients.admin.model import codec
from lograft.clients.admin.model.types import (
    ClusterDescription,
    ConfigEntry,
    ConfigKind,
    CreatedTopic,
    NewTopic,
    TopicDescription,
)
from lograft.clients.admin.retrying_calls import AdminCalls
from lograft.clients.cluster.item_results import checked, error_in, only
from lograft.clients.errors import LograftError, NotEnoughBrokers
from lograft.clients.option_checks import check_integer
from lograft.clients.types import check_topic
from lograft.proto import admin_pb2 as pb
from lograft.proto import methods


class TopicAdmin(AdminCalls):
    # -- descriptions

    async def describe_cluster(
        self, topics: Iterable[str] = (), *, include_internal: bool = False
    ) -> ClusterDescription:
        """Return the brokers and these topics: if none are named, those that `list_topics` returns. Raise
        `UnknownTopic` if a named topic does not exist."""
        topics = list(topics)
        for topic in topics:
            check_topic(topic)
        description = await self._describe(topics, include_internal)
        described = codec.read_cluster(description)
        if topics or include_internal:
            return described
        return replace(described, topics=tuple(topic for topic in described.topics if not topic.is_hidden))

    async def list_topics(self, *, include_internal: bool = False) -> list[str]:
        """Return the names of all topics. Without `include_internal`, leave out the cluster's own topics and those of
        the Spark connector, whose names begin with `lograft-spark-`."""
        return [topic.name for topic in (await self.describe_cluster(include_internal=include_internal)).topics]

    async def describe_topic(self, name: str) -> TopicDescription:
        """Return a topic with its partitions. Raise `UnknownTopic` if it does not exist."""
        return (await self.describe_cluster([name])).topics[0]

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
        """Create a topic. `validate_only`: check everything, change nothing.

        Raise `NotEnoughBrokers` at once if more `replicas` are asked for than brokers are registered.
        """
        topic = NewTopic(name, partitions, replicas, config or {}, assignments)
        return only(await self.create_topics([topic], validate_only=validate_only))

    async def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False
    ) -> list[CreatedTopic | LograftError]:
        """Create topics. Return the topic or its error for each, in order. A failed topic changes nothing and does not
        affect the others."""
        # The client chooses the ids: a repeated request recognizes the topic that the first one created.
        topics = list(topics)
        items = [codec.write_new_topic(topic, self._rng.uuid()) for topic in topics]

        async def create(numbers: list[int], final: type[LograftError] | tuple[()] = ()) -> list[Any]:
            return await self._each(
                methods.CREATE_TOPICS,
                [items[number] for number in numbers],
                lambda asked: pb.CreateTopicsRequest(topics=asked, validate_only=validate_only),
                pb.CreateTopicsResponse,
                final=final,
            )

        results = await create(list(range(len(items))), final=NotEnoughBrokers)
        refused = [number for number, each in enumerate(results) if isinstance(error_in(each), NotEnoughBrokers)]
        if refused:
            # Wait for registered brokers that are down, since they may come back, but not for brokers never registered.
            registered = len((await self._describe([topics[0].name], include_internal=False)).brokers)
            waiting = [number for number in refused if (topics[number].replicas or 0) <= registered]
            for number, result in zip(waiting, await create(waiting) if waiting else (), strict=True):
                results[number] = result
        return [_created(result) for result in results]

    async def delete_topic(self, name: str) -> None:
        """Delete a topic and all its records."""
        only(await self.delete_topics([name]))

    async def delete_topics(self, names: Iterable[str]) -> list[str | LograftError]:
        """Delete topics. Return the name or the error of each, in order."""
        names = list(names)
        for name in names:
            check_topic(name)
        described = {topic.name: topic for topic in (await self._describe(names, include_internal=False)).topics}
        # Delete by id, so that a retry does not delete a topic recreated under the same name meanwhile. A topic that is
        # not known to exist has no id.
        items = [pb.TopicReference(name=name, topic_id=described[name].id) for name in names]
        results = await self._each(
            methods.DELETE_TOPICS,
            items,
            lambda asked: pb.DeleteTopicsRequest(topics=asked),
            pb.DeleteTopicsResponse,
            repeatable=all(item.topic_id for item in items),
        )
        return [_deleted(name, result) for name, result in zip(names, results, strict=True)]

    async def create_partitions(self, topic: str, total: int, *, validate_only: bool = False) -> int:
        """Raise the number of a topic's partitions to `total`, and return the new number. A topic cannot lose
        partitions.

        If an error's `outcome_unknown` is true, the change may have been made: check before you repeat it. The
        client does not repeat it, because by then the topic may have been recreated, or another client may have
        added partitions.
        """
        check_topic(topic)
        check_integer("total", total, 1)
        items = [pb.CreatePartitionsRequest.Item(topic=pb.TopicReference(name=topic), total=total)]
        results = await self._each(
            methods.CREATE_PARTITIONS,
            items,
            lambda asked: pb.CreatePartitionsRequest(items=asked, validate_only=validate_only),
            pb.CreatePartitionsResponse,
            repeatable=validate_only,
        )
        return int(checked(results[0]).partitions)

    # -- configuration

    async def describe_config(self, kind: ConfigKind, name: str = "", keys: Iterable[str] = ()) -> list[ConfigEntry]:
        """Return the effective settings of a topic, a broker (by id) or the cluster, and the source of each."""
        items = [pb.DescribeConfigsRequest.Item(resource=_resource(kind, name), keys=keys)]
        results = await self._each(
            methods.DESCRIBE_CONFIGS,
            items,
            lambda asked: pb.DescribeConfigsRequest(items=asked),
            pb.DescribeConfigsResponse,
        )
        return [codec.read_config(value) for value in checked(results[0]).values]

    async def alter_config(
        self, kind: ConfigKind, name: str, changes: Mapping[str, str | None], *, validate_only: bool = False
    ) -> dict[str, str | None]:
        """Set keys, all or none of them; None unsets a key. Other keys keep their values. Return the changed values as
        stored; with `validate_only`, those that would change.

        If an error's `outcome_unknown` is true, the change may have been made: check before you repeat it. The
        client does not repeat it, because that could undo another client's later change.
        """
        codec.write_config({key: "" if value is None else value for key, value in changes.items()})
        item = pb.AlterConfigsRequest.Item(
            resource=_resource(kind, name),
            changes=[pb.AlterConfigsRequest.Change(key=key, value=value) for key, value in changes.items()],
        )
        results = await self._each(
            methods.ALTER_CONFIGS,
            [item],
            lambda asked: pb.AlterConfigsRequest(items=asked, validate_only=validate_only),
            pb.AlterConfigsResponse,
            repeatable=validate_only,
        )
        return codec.read_changes(checked(results[0]).changes)


def _resource(kind: ConfigKind, name: str) -> pb.ConfigResource:
    return pb.ConfigResource(kind=codec.CONFIG_KINDS[kind], name=name)


def _created(result: pb.CreateTopicsResponse.Result) -> CreatedTopic | LograftError:
    error = error_in(result)
    if error is not None:
        return error
    return CreatedTopic(result.name, UUID(bytes=result.topic_id), result.partitions, result.replication_factor)


def _deleted(name: str, result: pb.DeleteTopicsResponse.Result) -> str | LograftError:
    return error_in(result) or name
