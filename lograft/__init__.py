"""lograft: a Raft-replicated log service.

from lograft import Producer, Consumer, Admin, Record, RecordMetadata, TopicPartition
from lograft import aio         # the same, awaitable
from lograft import errors
from lograft.testing import cluster         # real processes, for tests
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lograft.clients.admin.sync_admin import Admin
    from lograft.clients.consumer.group.rebalance_listener import RebalanceListener
    from lograft.clients.consumer.sync_consumer import Consumer
    from lograft.clients.producer.delivery_results import StoredRange
    from lograft.clients.producer.pipeline.metrics import ProducerMetrics
    from lograft.clients.producer.sync_producer import Deliveries, Delivery, Producer
    from lograft.clients.records.arrow_table import ARROW_SCHEMA
    from lograft.clients.types import OffsetAndMetadata, RecordMetadata, TopicPartition
    from lograft.storage.batch.record import Record

    __version__: str

__all__ = [
    "ARROW_SCHEMA",
    "Admin",
    "Consumer",
    "Deliveries",
    "Delivery",
    "OffsetAndMetadata",
    "Producer",
    "ProducerMetrics",
    "RebalanceListener",
    "Record",
    "RecordMetadata",
    "StoredRange",
    "TopicPartition",
]

_HOMES = {
    "ARROW_SCHEMA": "lograft.clients.records.arrow_table",
    "Admin": "lograft.clients.admin.sync_admin",
    "Consumer": "lograft.clients.consumer.sync_consumer",
    "Deliveries": "lograft.clients.producer.sync_producer",
    "Delivery": "lograft.clients.producer.sync_producer",
    "OffsetAndMetadata": "lograft.clients.types",
    "Producer": "lograft.clients.producer.sync_producer",
    "ProducerMetrics": "lograft.clients.producer.pipeline.metrics",
    "RebalanceListener": "lograft.clients.consumer.group.rebalance_listener",
    "Record": "lograft.storage.batch.record",
    "RecordMetadata": "lograft.clients.types",
    "StoredRange": "lograft.clients.producer.delivery_results",
    "TopicPartition": "lograft.clients.types",
}
_MODULES = ("aio", "errors", "testing")


def __getattr__(name: str) -> Any:
    # Looked up when asked for: what is behind these takes longer to import than all else here.
    if name == "__version__":
        from importlib.metadata import version

        return version("lograft")
    if name in _HOMES or name in _MODULES:
        from importlib import import_module

        if name in _MODULES:
            return import_module(f"lograft.{name}")
        value = globals()[name] = getattr(import_module(_HOMES[name]), name)
        return value
    raise AttributeError(f"module 'lograft' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__, *_MODULES, "__version__"])
