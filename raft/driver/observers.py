"""Who wants to hear what happens in a node."""

from lograft.raft.core.configuration import Member


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
