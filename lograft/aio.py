"""The clients for asyncio: the same as those of `lograft`, awaitable."""

from lograft.clients.admin.aio_admin import Admin
from lograft.clients.consumer.aio_consumer import Consumer
from lograft.clients.producer.aio_producer import Deliveries, Delivery, Producer

__all__ = ["Admin", "Consumer", "Deliveries", "Delivery", "Producer"]
