"""lograft: a Raft-replicated log service.

from lograft import Producer, Consumer, Admin, Record, RecordMetadata, TopicPartition
from lograft import aio         # the same, awaitable
from lograft import errors
from lograft.testing import cluster         # real processes, for tests
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lograft.clients.admin import Admin
    from lograft.clients.arrow_table import ARROW_SCHEMA
    from lograft.clients.consumer import Consumer
    from lograft.clients.fates import StoredRange
    from lograft.clients.producer import Deliveries, Delivery, Producer
    from lograft.clients.producer_metrics import ProducerMetrics
    from lograft.clients.rebalance import RebalanceListener
    from lograft.clients.topic_partition import OffsetAndMetadata, RecordMetadata, TopicPartition
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
    "ARROW_SCHEMA": "lograft.clients.arrow_table",
    "Admin": "lograft.clients.admin",
    "Consumer": "lograft.clients.consumer",
    "Deliveries": "lograft.clients.producer",
    "Delivery": "lograft.clients.producer",
    "OffsetAndMetadata": "lograft.clients.topic_partition",
    "Producer": "lograft.clients.producer",
    "ProducerMetrics": "lograft.clients.producer_metrics",
    "RebalanceListener": "lograft.clients.rebalance",
    "Record": "lograft.storage.batch.record",
    "RecordMetadata": "lograft.clients.topic_partition",
    "StoredRange": "lograft.clients.fates",
    "TopicPartition": "lograft.clients.topic_partition",
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
