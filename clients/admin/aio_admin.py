"""The admin client, for asyncio."""

from lograft.clients.admin.cluster_admin import ClusterAdmin
from lograft.clients.admin.retrying_calls import DEFAULT_TIMEOUT_MS
from lograft.clients.admin.waiting_admin import WaitingAdmin

__all__ = ["DEFAULT_TIMEOUT_MS", "Admin"]


class Admin(ClusterAdmin, WaitingAdmin):
    """Looks at the cluster, and changes it. Whatever can be tried again is, within `timeout_ms`; but a cluster of which
    nobody was ever reached is not looked for longer than `first_contact_ms`.

    async with Admin("localhost:9092") as admin:
        await admin.create_topic("orders", partitions=6, replicas=3)
    """
