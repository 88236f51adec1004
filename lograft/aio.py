"""The clients for asyncio: the same as those of `lograft`, awaitable."""

from lograft.clients.aio_admin import Admin
from lograft.clients.aio_consumer import Consumer
from lograft.clients.aio_producer import Deliveries, Delivery, Producer

__all__ = ["Admin", "Consumer", "Deliveries", "Delivery", "Producer"]
