"""Broker liveness, from heartbeats and broken streams. Pure.

Heartbeats decide, because a stopped process keeps its sockets; a broken stream only speeds things up, because a killed
process does not. Brokers send heartbeats to every controller, and each records them; only the active one acts on them.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from lograft.metadata.image.partition import BrokerEpoch, BrokerId

Process: TypeAlias = tuple[BrokerId, BrokerEpoch]
"""A broker's process is known by the epoch that it got when it registered."""


@dataclass(frozen=True, slots=True)
class SessionTiming:
    """A broker sends something every `heartbeat_ms`. Its session ends after `session_ms` of silence, or after
    `broken_grace_ms` without a stream, which is time enough to open another."""

    heartbeat_ms: int = 500
    session_ms: int = 3000
    broken_grace_ms: int = 200

    def __post_init__(self) -> None:
        assert self.heartbeat_ms < self.session_ms
        assert self.broken_grace_ms <= self.session_ms


@dataclass(slots=True)
class _Session:
    """`broken_ms`: since when the process has no stream, after having had one."""

    heard_ms: int
    open_streams: int = 0
    broken_ms: int | None = None


_NEVER_HEARD = _Session(-1)
_REMEMBERED_SESSIONS = 10


class BrokerLiveness:
    """Records the session of each process. The caller decides which process of a broker counts: heartbeats of an older
    one, or of one that claims a wrong epoch, change nothing for the others. Processes without a stream are forgotten
    after a while."""

    def __init__(self, timing: SessionTiming | None = None) -> None:
        self.timing = timing or SessionTiming()
        self.may_end_sooner: Callable[[], None] = lambda: None  # called when a deadline may have come nearer
        self._sessions: dict[Process, _Session] = {}
        self._active_since_ms = 0
        self._not_before_ms = 0

    # -- events

    def heard(self, broker_id: BrokerId, epoch: BrokerEpoch, now_ms: int) -> None:
        """Note a heartbeat, or anything else that only a living process can have sent."""
        session = self._sessions.get((broker_id, epoch))
        if session is None:
            self._forget_old(now_ms)
            session = self._sessions[broker_id, epoch] = _Session(now_ms)
        session.heard_ms = max(session.heard_ms, now_ms)
        session.broken_ms = None

    def stream_opened(self, broker_id: BrokerId, epoch: BrokerEpoch, now_ms: int) -> None:
        self.heard(broker_id, epoch, now_ms)
        self._sessions[broker_id, epoch].open_streams += 1

    def stream_broken(self, broker_id: BrokerId, epoch: BrokerEpoch, now_ms: int) -> None:
        """Note the end of a stream, once for each that was opened, however it ended. It has no effect while another
        stream of the process is open."""
        session = self._sessions[broker_id, epoch]
        assert session.open_streams > 0, f"no stream of broker {broker_id} was open"
        session.open_streams -= 1
        if session.open_streams == 0:
            session.broken_ms = now_ms
            self.may_end_sooner()

    # -- what the controller itself goes through

    def became_active(self, now_ms: int) -> None:
        """Give each broker its full time from now on: it may have talked to the previous controller only.

        A broker whose stream to this controller broke gets the grace period alone, and that also starts now at the
        earliest: the cause of the broken stream may be what ended the other controller's office.
        """
        self._active_since_ms = now_ms

    def stood_still(self, stall_ms: int, now_ms: int) -> None:
        """Note that this process did nothing for `stall_ms`, until now. Messages that arrived meanwhile are unread, and
        brokers without answers may have closed their streams: no session ends before it had as much time again."""
        self._not_before_ms = max(self._not_before_ms, now_ms + min(stall_ms, self.timing.session_ms))

    # -- what follows

    def is_alive(self, broker_id: BrokerId, epoch: BrokerEpoch, now_ms: int) -> bool:
        """Return True unless the session is over. A process that was never heard counts from the start of the
        office."""
        return now_ms < self._deadline_ms(broker_id, epoch)

    def expired(self, now_ms: int, live: Iterable[Process]) -> list[Process]:
        """Return the processes whose session is over, of those that count as live."""
        return [process for process in live if self._deadline_ms(*process) <= now_ms]

    def next_deadline_ms(self, live: Iterable[Process]) -> int | None:
        """Return when the first of these sessions ends unless something is heard; None if there is none."""
        return min((self._deadline_ms(*process) for process in live), default=None)

    def _deadline_ms(self, broker_id: BrokerId, epoch: BrokerEpoch) -> int:
        session = self._sessions.get((broker_id, epoch), _NEVER_HEARD)
        deadline_ms = max(session.heard_ms, self._active_since_ms) + self.timing.session_ms
        if session.broken_ms is not None:
            grace_began_ms = max(session.broken_ms, self._active_since_ms)
            deadline_ms = min(deadline_ms, grace_began_ms + self.timing.broken_grace_ms)
        return max(deadline_ms, self._not_before_ms)

    def _forget_old(self, now_ms: int) -> None:
        oldest_ms = now_ms - _REMEMBERED_SESSIONS * self.timing.session_ms
        self._sessions = {
            process: session
            for process, session in self._sessions.items()
            if session.open_streams > 0 or session.heard_ms >= oldest_ms
        }
