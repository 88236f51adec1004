"""All methods of `lograft.v1.Log`."""

from collections.abc import Mapping

from lograft.broker.fetch.fetch_service import FetchService
from lograft.broker.fetch.range_service import RangeService
from lograft.broker.produce.produce_service import ProduceService
from lograft.broker.produce.producer_id_service import ProducerIdService
from lograft.broker.replica.interfaces import ServedReplicas
from lograft.broker.replica.partition_lookup import PartitionLookup
from lograft.broker.requests.call_stats import ServerStats
from lograft.broker.server.digest_service import DigestService
from lograft.broker.server.load_service import LoadService
from lograft.broker.server.offsets_service import OffsetsService
from lograft.broker.server.records_service import RecordsService
from lograft.broker.server.replicas_service import ReplicasService
from lograft.metadata.membership.cluster_membership import ClusterMembership
from lograft.runtime.limits.buffer_budget import BufferBudget
from lograft.runtime.network import Handler
from lograft.runtime.world import Runtime


class LogServices:
    """Composes the services behind `lograft.v1.Log`. `stats` counts errors inside their streams."""

    def __init__(
        self,
        runtime: Runtime,
        membership: ClusterMembership,
        replicas: ServedReplicas,
        stats: ServerStats,
        load: LoadService,
        budget: BufferBudget,
    ) -> None:
        logs = PartitionLookup(replicas, lambda: membership.image)
        self.produce = ProduceService(runtime, logs, stats=stats, budget=budget)
        self.fetch = FetchService(runtime, logs, stats=stats, budget=budget)
        self._range = RangeService(runtime.clock, logs, stats, budget)
        self._others = (
            RecordsService(runtime, logs, budget),
            OffsetsService(logs),
            ReplicasService(logs),
            load,
            DigestService(runtime, logs),
            ProducerIdService(membership.allocate_producer_ids),
        )

    def handlers(self) -> Mapping[str, Handler]:
        """Return, by method, the handlers that account for their own network buffers."""
        return {**self.produce.handlers(), **self.fetch.handlers(), **self._range.handlers()}

    def other_handlers(self) -> Mapping[str, Handler]:
        """Return all other handlers, by method."""
        handlers: dict[str, Handler] = {}
        for service in self._others:
            handlers.update(service.handlers())
        return handlers
