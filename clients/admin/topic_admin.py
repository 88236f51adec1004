"""Topics and configuration, for the admin client for asyncio."""

from collections.abc import Iterable, Mapping, Sequence
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
        return only(await self.create_topics([topic], validate_only=validate_only))

    async def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False
    ) -> list[CreatedTopic | LograftError]:
        """What came of each, in order. One that fails changes nothing, and does not keep the others from it."""
        # An id of our own: a request that was carried out and is sent again finds its own topic.
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
            # A registered broker that is down may come back, and is waited for; one that nobody has added is not.
            registered = len((await self._describe([topics[0].name], include_internal=False)).brokers)
            waiting = [number for number in refused if (topics[number].replicas or 0) <= registered]
            for number, result in zip(waiting, await create(waiting) if waiting else (), strict=True):
                results[number] = result
        return [_created(result) for result in results]

    async def delete_topic(self, name: str) -> None:
        only(await self.delete_topics([name]))

    async def delete_topics(self, names: Iterable[str]) -> list[str | LograftError]:
        """What came of each, in order: its name, or why it is still there."""
        names = list(names)
        for name in names:
            check_topic(name)
        described = {topic.name: topic for topic in (await self._describe(names, include_internal=False)).topics}
        # By id: a topic that is created anew under the name meanwhile is not what was meant, also not if it is asked
        # for again. Of what is not there, as far as is known, there is no id.
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
        """See to it that the topic has `total` partitions; how many it has. A topic cannot lose partitions.

        If `outcome_unknown` of an error is true, it may have been done: look, before you ask again. It is not done
        again by itself, because the topic may be another one by then, or somebody else may have given it more."""
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
        """What is in force for a topic, a broker (its id) or the cluster, and where it comes from."""
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
        """Set keys, all or none of them; None unsets one. Others stay as they are. What is another now, or would be
        with `validate_only`: values as they are stored.

        An error whose `outcome_unknown` is true says that it may have been done: look, before you do it again. It is
        not done again by itself, because that could undo what somebody else has set since."""
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
