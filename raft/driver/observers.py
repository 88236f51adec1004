"""Observers of a node, and the watch that reports leadership to them."""

from lograft.raft.core.configuration import Member
from lograft.raft.core.raft_core import RaftCore
from lograft.raft.core.roles import Leader


class NodeObserver:
    """Base class: override the events of interest. Called on the loop between steps; must neither block nor raise."""

    def leadership_taken(self, term: int) -> None:
        """This node leads in `term`, and has applied everything committed before."""

    def leadership_lost(self, term: int) -> None:
        """This node no longer leads in `term`. Called before an entry of a later leader is applied."""

    def leader_changed(self, leader: Member | None, term: int) -> None:
        """This node now knows another leader, or none."""

    def committed(self, index: int) -> None:
        """Everything up to `index` is committed, and applied on this node."""


class Observers(NodeObserver):
    """Notifies several observers, in the order they were added."""

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
    """Reports each change of leadership once, and this node's own only when it can act as leader."""

    def __init__(self, observer: NodeObserver) -> None:
        self._observer = observer
        self._led_term: int | None = None  # the term that `leadership_taken` reported
        self._leader: tuple[Member | None, int] = (None, 0)

    def note_loss(self, core: RaftCore) -> None:
        """Report lost leadership. Call before applying anything: the plans of a deposed leader are void."""
        if self._led_term is not None and not (isinstance(core.role, Leader) and core.term == self._led_term):
            led_term, self._led_term = self._led_term, None
            self._observer.leadership_lost(led_term)

    def note(self, core: RaftCore, applied_index: int) -> None:
        """Report changes. Call after applying everything committed."""
        self.note_loss(core)
        if (core.leader, core.term) != self._leader:
            self._leader = (core.leader, core.term)
            self._observer.leader_changed(core.leader, core.term)
        # The leader's own first entry is applied, hence everything earlier leaders committed.
        if self._led_term is None and isinstance(core.role, Leader) and applied_index >= core.role.first_index:
            self._led_term = core.term
            self._observer.leadership_taken(core.term)
