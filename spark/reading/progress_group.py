"""Shows a streaming query's progress as a consumer group, so that its lag can be monitored like any group's."""

from lograft.clients.admin.sync_admin import Admin
from lograft.clients.errors import LograftError
from lograft.runtime.clock import LoopClock
from lograft.runtime.observability.logging import get_logger
from lograft.spark.common.options import StreamOptions
from lograft.spark.reading.stream_offsets import StreamOffset

log = get_logger(__name__)

_TIMEOUT_MS = 3000
_PAUSE_SECONDS = 30.0


class ShownProgress:
    """Commits the query's offsets to the group, for information only: the checkpoint is authoritative. After a failed
    commit, the query continues and a later batch commits again."""

    def __init__(self, bootstrap: str, options: StreamOptions) -> None:
        self._bootstrap = bootstrap
        self._options = options
        self._admin: Admin | None = None
        self._shown: StreamOffset | None = None
        self._not_before_seconds = 0.0

    def show(self, reached: StreamOffset) -> None:
        now_seconds = LoopClock().monotonic_seconds()
        if reached == self._shown or not reached.offsets or now_seconds < self._not_before_seconds:
            return
        group = self._options.group or f"{self._options.group_prefix}-{reached.source}"
        try:
            if self._admin is None:
                self._admin = Admin(self._bootstrap, timeout_ms=_TIMEOUT_MS)
            refused = self._admin.alter_group_offsets(group, dict(reached.offsets))
            for error in filter(None, refused.values()):
                raise error
            self._shown = reached
        except LograftError as error:
            log.warning("progress_not_shown", group=group, reason=str(error))
            self._not_before_seconds = now_seconds + _PAUSE_SECONDS

    def close(self) -> None:
        if self._admin is not None:
            self._admin.close()
