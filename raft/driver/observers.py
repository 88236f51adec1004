"""Who wants to hear what happens in a node."""

from lograft.raft.core.configuration import Member
from lograft.raft.core.raft_core import RaftCore
from lograft.raft.core.roles import Leader


class NodeObserver:
    """Override what is of interest. Called on the loop, between steps; must return at once, and not raise."""

    def leadership_taken(self, term: int) -> None:
        """This node leads in `term`, and all that was committed before is applied here."""

    def leadership_lost(self, term: int) -> None:
        """What `leadership_taken` said of `term` is over. Comes before anything of a later leader is applied."""

    def leader_changed(self, leader: Member | None, term: int) -> None:
        """This node knows of another leader now, or of none."""

    def committed(self, index: int) -> None:
        """Everything up to `index` is committed, and applied here."""


class Observers(NodeObserver):
    """Tells several, in the order they came."""

    def __init__(self) -> None:
        self._observers: list[NodeObserver] = []

    def add(self, observer: NodeObserver) -> None:
        self._observers.append(observer)

    def leadership_taken(self, term: int) -> None:
        for observer in self._observers:
            observer.leadership_taken(term)

    def leadership_lost(self, term: int) -> None:
        for observer in self._observers:
            observer.leadership_lost(term)

    def leader_changed(self, leader: Member | None, term: int) -> None:
        for observer in self._observers:
            observer.leader_changed(leader, term)

    def committed(self, index: int) -> None:
        for observer in self._observers:
            observer.committed(index)


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
