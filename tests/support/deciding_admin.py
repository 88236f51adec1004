"""An admin client without a network: what it asks is decided by the controller's own rules, on an image.

admin = DecidingAdmin(image_with(*brokers(3)))
await admin.create_topic("orders", partitions=6)
assert "orders" in admin.image.topic_ids
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from support.metadata_images import apply

from lograft.clients.admin.aio_admin import Admin
from lograft.clients.admin.model.types import BrokerLoad
from lograft.metadata.controller.services.admin_partitions import decide_list_reassignments, decide_reassign
from lograft.metadata.controller.services.admin_topics import (
    decide_add_partitions,
    decide_alter_configs,
    decide_create,
    decide_describe_configs,
)
from lograft.metadata.decisions.decision import Decision
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import TopicId
from lograft.metadata.membership.cluster_codec import TopicChoice, describe_cluster
from lograft.proto import cluster_pb2, methods
from lograft.rpc.coded_error import ControllerError
from lograft.rpc.status import detail_of
from lograft.runtime.rng import Rng


class DecidingAdmin(Admin):
    """`changes`: how many requests changed something. `loads`: what brokers say of themselves."""

    def __init__(self, image: ClusterImage, seed: int = 1) -> None:
        super().__init__("nowhere:1")
        self.image = image
        self.changes = 0
        self.loads: list[BrokerLoad] = []
        self._dice = Rng(seed)

    async def start(self) -> None:
        """There is nobody to connect to."""

    async def close(self) -> None:
        """It may be used again."""

    @property
    def _rng(self) -> Rng:
        return self._dice

    async def describe_load(self, topics: Iterable[str] = (), *, include_partitions: bool = True) -> list[BrokerLoad]:
        return self.loads

    async def _describe(self, topics: Iterable[str], include_internal: bool) -> cluster_pb2.ClusterDescription:
        choice = TopicChoice(dict.fromkeys(topics), include_internal)
        return describe_cluster(self.image, 1, choice, "test", 1)

    async def _call(self, method: str, request: Any, response_type: Any, *, repeatable: bool = True) -> Any:
        assert method == methods.LIST_REASSIGNMENTS
        return decide_list_reassignments(self.image, request).answer

    async def _each(
        self,
        method: str,
        items: Sequence[Any],
        request_of: Callable[[Sequence[Any]], Any],
        response_type: Any,
        *,
        repeatable: bool = True,
        final: Any = (),
    ) -> list[Any]:
        is_rehearsal = getattr(request_of(items), "validate_only", False)
        before, changes = self.image, self.changes
        if method == methods.ALTER_REASSIGNMENTS:
            results = list(self._take(decide_reassign(self.image, items)).results)
        else:
            results = [self._decide(method, item, response_type) for item in items]
        if is_rehearsal:
            self.image, self.changes = before, changes
        return results

    def _decide(self, method: str, item: Any, response_type: Any) -> Any:
        try:
            match method:
                case methods.CREATE_TOPICS:
                    return self._take(decide_create(self.image, item, TopicId(self._dice.uuid()), self._dice))
                case methods.CREATE_PARTITIONS:
                    return self._take(decide_add_partitions(self.image, item, self._dice))
                case methods.DESCRIBE_CONFIGS:
                    return self._take(decide_describe_configs(self.image, item))
                case methods.ALTER_CONFIGS:
                    return self._take(decide_alter_configs(self.image, item))
        except ControllerError as error:
            return response_type.Result(error=detail_of(error))
        raise AssertionError(f"{method} is not decided here")

    def _take(self, decision: Decision[Any]) -> Any:
        if decision.records:
            self.image = apply(self.image, decision)
            self.changes += 1
        return decision.answer
