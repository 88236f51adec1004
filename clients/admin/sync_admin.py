"""The admin client for synchronous code: runs the awaitable client on an event loop in another thread."""

from collections.abc import Iterable
from types import TracebackType
from typing import Self

from lograft.clients.admin import aio_admin
from lograft.clients.admin.aio_admin import DEFAULT_TIMEOUT_MS
from lograft.clients.admin.sync_admin_calls import SyncAdminCalls

__all__ = ["Admin"]


class Admin(SyncAdminCalls):
    """Inspects and changes the cluster. Retries every safe operation within `timeout_ms`.

    with Admin("localhost:9092") as admin:
        admin.create_topic("orders", partitions=6, replicas=3)
    """

    def __init__(
        self,
        bootstrap: str | Iterable[str],
        *,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
        first_contact_ms: int | None = None,
    ) -> None:
        super().__init__()
        self._inner = aio_admin.Admin(bootstrap, timeout_ms=timeout_ms, first_contact_ms=first_contact_ms)
        self._wait(self._inner.start)

    def close(self) -> None:
        self._wait(self._inner.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
