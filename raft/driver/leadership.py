"""Whether this node leads, and who does, as it is told to observers."""

from lograft.raft.core.configuration import Member
from lograft.raft.core.raft_core import RaftCore
from lograft.raft.core.roles import Leader
from lograft.raft.driver.observers import NodeObserver


class LeadershipWatch:
    """Tells of each change once, and of leadership only when this node can act on it."""

    def __init__(self, observer: NodeObserver) -> None:
        self._observer = observer
        self._led_term: int | None = None  # the term of which `leadership_taken` was told
        self._leader: tuple[Member | None, int] = (None, 0)

    def note_loss(self, core: RaftCore) -> None:
        """Before anything is applied: a leader's plans are void once it leads no more."""
        if self._led_term is not None and not (isinstance(core.role, Leader) and core.term == self._led_term):
            led_term, self._led_term = self._led_term, None
            self._observer.leadership_lost(led_term)

    def note(self, core: RaftCore, applied_index: int) -> None:
        """After all that is committed was applied."""
        self.note_loss(core)
        if (core.leader, core.term) != self._leader:
            self._leader = (core.leader, core.term)
            self._observer.leader_changed(core.leader, core.term)
        # Its own first entry is applied, so everything committed by earlier leaders is.
        if self._led_term is None and isinstance(core.role, Leader) and applied_index >= core.role.first_index:
            self._led_term = core.term
            self._observer.leadership_taken(core.term)
