"""All of `lograft.v1.Log`, put together."""

from collections.abc import Mapping

from lograft.broker.digest_service import DigestService
from lograft.broker.fetch_service import FetchLimits, FetchService
from lograft.broker.offsets_service import OffsetsService
from lograft.broker.produce_service import ProduceLimits, ProduceService
from lograft.broker.producer_id_service import ProducerIdService
from lograft.broker.range_service import RangeService
from lograft.broker.records_service import RecordsService
from lograft.broker.replica_ports import ServedReplicas
from lograft.broker.replicas_service import ReplicasService
from lograft.broker.served_logs import ServedLogs
from lograft.metadata.membership import ClusterMembership
from lograft.runtime.network import Handler
from lograft.runtime.world import Runtime


def log_handlers(
    runtime: Runtime,
    membership: ClusterMembership,
    replicas: ServedReplicas,
    produce_limits: ProduceLimits | None = None,
    fetch_limits: FetchLimits | None = None,
) -> Mapping[str, Handler]:
    """What a broker's server is to serve, by method."""
    logs = ServedLogs(replicas, lambda: membership.image)
    return {
        **ProduceService(runtime, logs, produce_limits).handlers(),
        **FetchService(runtime, logs, fetch_limits).handlers(),
        **RangeService(logs).handlers(),
        **RecordsService(runtime, logs).handlers(),
        **OffsetsService(logs).handlers(),
        **ReplicasService(logs).handlers(),
        **DigestService(runtime, logs).handlers(),
        **ProducerIdService(membership.allocate_producer_ids).handlers(),
    }
