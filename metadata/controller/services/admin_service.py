"""The public service `lograft.v1.Admin` of a controller, except for the quorum: see `quorum_service.py`.

Clients may ask any controller; one that is not active names the active one.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from lograft.metadata.controller.services.admin_handler import admin_handler
from lograft.metadata.controller.services.admin_items import AdminItems, Submitter
from lograft.metadata.controller.services.admin_partitions import (
    check_election,
    decide_elect_all,
    decide_elect_listed,
    decide_list_reassignments,
    decide_reassign,
)
from lograft.metadata.controller.services.admin_topics import (
    decide_add_partitions,
    decide_alter_configs,
    decide_create,
    decide_delete,
    decide_describe_configs,
)
from lograft.metadata.decisions.brokers.registration import unregister_broker
from lograft.metadata.decisions.decision import Decision
from lograft.metadata.decisions.partitions.log_ends import LogEnds
from lograft.metadata.decisions.topics.disk_room import FindRoom, nothing_reported
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerId, PartitionKey, TopicId
from lograft.proto import admin_pb2 as pb
from lograft.proto import methods
from lograft.rpc.coded_error import ControllerError
from lograft.rpc.request_limits import check_item_count
from lograft.rpc.status import detail_of, unknown_outcome
from lograft.runtime.network import Handler
from lograft.runtime.world import Runtime

Item = TypeVar("Item")
R = TypeVar(
    "R",
    pb.CreateTopicsResponse.Result,
    pb.DeleteTopicsResponse.Result,
    pb.CreatePartitionsResponse.Result,
    pb.DescribeConfigsResponse.Result,
    pb.AlterConfigsResponse.Result,
)


class AdminService:
    """`controllers`: their addresses by id, to name the active one. `log_ends`: reported log ends of partitions without
    a leader. `room`: reported full directories."""

    def __init__(
        self,
        runtime: Runtime,
        active: Submitter,
        controllers: Mapping[int, str],
        log_ends: Callable[[], LogEnds],
        room: FindRoom = nothing_reported,
    ) -> None:
        self._rng = runtime.rng
        self._items = AdminItems(active)
        self._controllers = controllers
        self._log_ends = log_ends
        self._room = room

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handlers, by method."""
        served: tuple[tuple[str, Any, Any], ...] = (
            (methods.CREATE_TOPICS, self._create_topics, pb.CreateTopicsRequest),
            (methods.DELETE_TOPICS, self._delete_topics, pb.DeleteTopicsRequest),
            (methods.CREATE_PARTITIONS, self._create_partitions, pb.CreatePartitionsRequest),
            (methods.DESCRIBE_CONFIGS, self._describe_configs, pb.DescribeConfigsRequest),
            (methods.ALTER_CONFIGS, self._alter_configs, pb.AlterConfigsRequest),
            (methods.ALTER_REASSIGNMENTS, self._alter_reassignments, pb.AlterReassignmentsRequest),
            (methods.LIST_REASSIGNMENTS, self._list_reassignments, pb.ListReassignmentsRequest),
            (methods.ELECT_LEADERS, self._elect_leaders, pb.ElectLeadersRequest),
            (methods.UNREGISTER_BROKER, self._unregister_broker, pb.UnregisterBrokerRequest),
        )
        return {name: admin_handler(answer, request, self._controllers) for name, answer, request in served}

    # -- item by item

    async def _create_topics(self, request: pb.CreateTopicsRequest) -> pb.CreateTopicsResponse:
        def decide(image: ClusterImage, item: pb.NewTopic) -> Decision[pb.CreateTopicsResponse.Result]:
            return decide_create(image, item, TopicId(self._rng.uuid()), self._rng, self._room(image))

        blank = [pb.CreateTopicsResponse.Result(name=item.name, topic_id=item.topic_id) for item in request.topics]
        results = await self._results(request.topics, decide, blank, validate_only=request.validate_only)
        return pb.CreateTopicsResponse(results=results)

    async def _delete_topics(self, request: pb.DeleteTopicsRequest) -> pb.DeleteTopicsResponse:
        blank = [pb.DeleteTopicsResponse.Result(name=item.name, topic_id=item.topic_id) for item in request.topics]
        results = await self._results(request.topics, decide_delete, blank, validate_only=request.validate_only)
        return pb.DeleteTopicsResponse(results=results)

    async def _create_partitions(self, request: pb.CreatePartitionsRequest) -> pb.CreatePartitionsResponse:
        def decide(
            image: ClusterImage, item: pb.CreatePartitionsRequest.Item
        ) -> Decision[pb.CreatePartitionsResponse.Result]:
            return decide_add_partitions(image, item, self._rng, self._room(image))

        topics = [item.topic for item in request.items]
        blank = [pb.CreatePartitionsResponse.Result(name=topic.name, topic_id=topic.topic_id) for topic in topics]
        results = await self._results(request.items, decide, blank, validate_only=request.validate_only)
        return pb.CreatePartitionsResponse(results=results)

    async def _describe_configs(self, request: pb.DescribeConfigsRequest) -> pb.DescribeConfigsResponse:
        blank = [pb.DescribeConfigsResponse.Result(resource=item.resource) for item in request.items]
        return pb.DescribeConfigsResponse(results=await self._results(request.items, decide_describe_configs, blank))

    async def _alter_configs(self, request: pb.AlterConfigsRequest) -> pb.AlterConfigsResponse:
        blank = [pb.AlterConfigsResponse.Result(resource=item.resource) for item in request.items]
        results = await self._results(request.items, decide_alter_configs, blank, validate_only=request.validate_only)
        return pb.AlterConfigsResponse(results=results)

    async def _results(
        self,
        items: Sequence[Item],
        decide: Callable[[ClusterImage, Item], Decision[R]],
        blank: Sequence[R],
        *,
        validate_only: bool = False,
    ) -> list[R]:
        """Return each item's result; a refused item's is `blank` with the error."""
        check_item_count(len(items), "items")
        decides = [_bound(decide, item) for item in items]
        outcomes = await (self._items.rehearse(decides) if validate_only else self._items.each(decides))
        results: list[R] = []
        for outcome, refusal in zip(outcomes, blank, strict=True):
            if isinstance(outcome, ControllerError):
                refusal.error.CopyFrom(detail_of(outcome))
            results.append(refusal if isinstance(outcome, ControllerError) else outcome)
        return results

    # -- all in one operation

    async def _alter_reassignments(self, request: pb.AlterReassignmentsRequest) -> pb.AlterReassignmentsResponse:
        check_item_count(len(request.items), "partitions")

        def decide(image: ClusterImage) -> Decision[pb.AlterReassignmentsResponse]:
            return decide_reassign(image, request.items, self._room(image))

        return await (self._items.rehearse_one(decide) if request.validate_only else self._items.one(decide))

    async def _list_reassignments(self, request: pb.ListReassignmentsRequest) -> pb.ListReassignmentsResponse:
        check_item_count(len(request.topics), "topics")
        return await self._items.one(lambda image: decide_list_reassignments(image, request))

    async def _elect_leaders(self, request: pb.ElectLeadersRequest) -> pb.ElectLeadersResponse:
        check_election(request)
        check_item_count(len(request.partitions), "partitions")
        if request.all_partitions:
            return pb.ElectLeadersResponse(results=await self._elect_all(request))
        return await self._items.one(
            lambda image: decide_elect_listed(image, request, self._log_ends(), self._room(image))
        )

    async def _elect_all(self, request: pb.ElectLeadersRequest) -> Iterable[pb.ElectLeadersResponse.Result]:
        results: dict[PartitionKey, pb.ElectLeadersResponse.Result] = {}
        while True:
            try:
                elected = await self._items.one(
                    lambda image: decide_elect_all(image, request, self._log_ends(), self._room(image))
                )
            except ControllerError as error:
                if not results:
                    raise
                raise unknown_outcome(f"some leaders were elected, but then: {error.message}") from None
            results.update(elected.results)
            if elected.is_complete:
                return results.values()

    async def _unregister_broker(self, request: pb.UnregisterBrokerRequest) -> pb.UnregisterBrokerResponse:
        await self._items.one(lambda image: unregister_broker(image, BrokerId(request.broker_id)))
        return pb.UnregisterBrokerResponse()


def _bound(decide: Callable[[ClusterImage, Item], Decision[R]], item: Item) -> Callable[[ClusterImage], Decision[R]]:
    return lambda image: decide(image, item)
