"""A leader's knowledge of one peer's log. Pure."""

from collections import deque
from dataclasses import dataclass, field


@dataclass(slots=True)
class Probe:
    """The point of agreement is unknown: send one request at a time until the peer answers."""

    is_waiting: bool = False


@dataclass(slots=True)
class Replicate:
    """The logs agree, and entries are pipelined: `in_flight` holds (last index, bytes) of each request."""

    in_flight: deque[tuple[int, int]] = field(default_factory=deque)
    in_flight_bytes: int = 0


@dataclass(slots=True)
class ReceiveSnapshot:
    """The peer is behind the leader's snapshot, and the leader is sending it."""

    index: int


@dataclass(slots=True)
class PeerProgress:
    """Invariant: match_index < next_index."""

    next_index: int
    match_index: int = 0
    state: Probe | Replicate | ReceiveSnapshot = field(default_factory=Probe)
    contact_ms: int = 0  # time of its last answer
    acknowledged_round: int = 0
    sent_commit_index: int = 0
    # The round of a heartbeat that was sent after all entries up to an index.
    awaited: tuple[int, int] | None = None

    def is_paused(self, max_in_flight: int, max_in_flight_bytes: int) -> bool:
        match self.state:
            case Probe(is_waiting=is_waiting):
                return is_waiting
            case Replicate(in_flight=in_flight, in_flight_bytes=size):
                return len(in_flight) >= max_in_flight or size >= max_in_flight_bytes
            case ReceiveSnapshot():
                return True

    def sent(self, last_index: int, size_bytes: int, commit_index: int) -> None:
        """Note a request in flight, with entries up to `last_index` (none if that is before `next_index`)."""
        self.sent_commit_index = commit_index
        match self.state:
            case Probe():
                self.state.is_waiting = True
            case Replicate() if last_index >= self.next_index:
                self.state.in_flight.append((last_index, size_bytes))
                self.state.in_flight_bytes += size_bytes
                self.next_index = last_index + 1

    def acknowledge(self, match_index: int) -> bool:
        """Note that the peer has everything up to `match_index`; return True if that is new."""
        is_news = match_index > self.match_index
        is_probed = match_index >= self.next_index - 1  # else it answers an older request
        self.match_index = max(self.match_index, match_index)
        self.next_index = max(self.next_index, match_index + 1)
        match self.state:
            case Probe() if is_probed:
                self.state = Replicate()
            case Replicate(in_flight=in_flight):
                while in_flight and in_flight[0][0] <= match_index:
                    self.state.in_flight_bytes -= in_flight.popleft()[1]
            case ReceiveSnapshot(index=index):
                if self.match_index >= index:
                    self.state = Replicate()
        return is_news

    def heartbeat_sent(self, heartbeat_round: int) -> None:
        if self.awaited is None and isinstance(self.state, Replicate) and self.state.in_flight:
            self.awaited = (heartbeat_round, self.state.in_flight[-1][0])

    def heartbeat_answered(self, heartbeat_round: int) -> None:
        """Resend requests older than that heartbeat: the peer would have answered them before it, so they are lost."""
        self.acknowledged_round = max(self.acknowledged_round, heartbeat_round)
        if isinstance(self.state, Probe):
            self.state.is_waiting = False  # the last probe, or its answer, may have been lost
        if self.awaited is not None and heartbeat_round >= self.awaited[0]:
            is_lost = isinstance(self.state, Replicate) and self.match_index < self.awaited[1]
            self.awaited = None
            if is_lost:
                self.probe_from(self.match_index + 1)

    def connection_broken(self) -> None:
        """Treat requests in flight as lost. The transport reports the outcome of a snapshot separately."""
        if not isinstance(self.state, ReceiveSnapshot):
            self.probe_from(self.match_index + 1)

    def probe_from(self, next_index: int) -> None:
        """Search for the point of agreement again, from `next_index` down, after a loss or a mismatch."""
        self.next_index = max(next_index, self.match_index + 1)
        self.state = Probe()
