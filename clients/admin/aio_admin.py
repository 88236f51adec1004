"""The admin client, for asyncio."""

from lograft.clients.admin.cluster_admin import ClusterAdmin
from lograft.clients.admin.retrying_calls import DEFAULT_TIMEOUT_MS
from lograft.clients.admin.waiting_admin import WaitingAdmin

__all__ = ["DEFAULT_TIMEOUT_MS", "Admin"]


class Admin(ClusterAdmin, WaitingAdmin):
    """Inspects and changes the cluster. Retries every safe operation within `timeout_ms`, but gives up on a cluster
    after `first_contact_ms` if no broker of it was ever reached.

    async with Admin("localhost:9092") as admin:
        await admin.create_topic("orders", partitions=6, replicas=3)
    """
