"""The largest message that a broker accepts from clients, as small as its topics allow.

gRPC refuses a message over the listener's limit at its first bytes. Any other message is received whole, and copied on
the event loop, before the service can refuse it for its topic's `max.message.bytes`.
"""

import asyncio
from collections.abc import Callable

from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.records import ConfigChanged, ConfigResource, Record, ResourceKind
from lograft.metadata.image.state_machine import MachineListener
from lograft.runtime.network import MAX_MESSAGE_BYTES

USUAL_BATCH_BYTES = 16 * 1024 * 1024
"""No topic accepts larger batches unless an operator has configured it to."""
USUAL_REQUEST_BYTES = USUAL_BATCH_BYTES + 1024 * 1024

_KEY = "max.message.bytes"


class RequestLimit(MachineListener):
    """`size_bytes` grows once, when the first topic accepts larger batches than usual; then `has_grown` is set.

    It never shrinks: such a topic has clients, and other topics may follow. `configured`: a fixed limit from the node's
    configuration, which does not grow.
    """

    def __init__(self, image: Callable[[], ClusterImage], configured: int | None) -> None:
        self.size_bytes = configured or USUAL_REQUEST_BYTES
        self.has_grown = asyncio.Event()
        self._image = image
        self._is_fixed = configured is not None

    def applied(self, index: int, records: tuple[Record, ...]) -> None:
        for record in records:
            if isinstance(record, ConfigChanged) and record.key == _KEY:
                self._consider(record.resource, record.value)

    def restored(self, index: int) -> None:
        for resource, values in self._image().configs.items():
            self._consider(resource, values.get(_KEY))

    def _consider(self, resource: ConfigResource, value: str | None) -> None:
        if self._is_fixed or value is None or int(value) <= USUAL_BATCH_BYTES:
            return
        if resource.kind is ResourceKind.TOPIC or resource.kind is ResourceKind.CLUSTER:
            self.size_bytes = MAX_MESSAGE_BYTES
            self.has_grown.set()
