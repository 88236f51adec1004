"""The cluster a client belongs to: the first one it connected to. Pure.

Another cluster may later answer at the same addresses, with topics and groups of the same names. A client's metadata is
wrong there, and its requests were meant for the first cluster, so it only uses connections to its own cluster.
"""

from collections.abc import Callable

from lograft.clients.errors import WrongCluster

REPLACED_AFTER_MS = 3000
"""How long only another cluster must answer before the client's own counts as replaced. The client tries every other
address much sooner than that, so one misassigned address and one restarting broker do not end it."""


class ClusterIdentity:
    """`cluster_id`: empty until known. `replaced_by`: the id of the cluster that took its place, if any."""

    def __init__(self) -> None:
        self.cluster_id = ""
        self.replaced_by: str | None = None
        self._reaches_own: list[Callable[[], bool]] = []
        self._strangers_since_ms: int | None = None  # since when only another cluster answers

    @property
    def is_replaced(self) -> bool:
        return self.replaced_by is not None

    def watch(self, reaches_own: Callable[[], bool]) -> None:
        """Register `reaches_own`, which returns True while a connection to a broker of this cluster is open."""
        self._reaches_own.append(reaches_own)

    def learn(self, cluster_id: str) -> None:
        """Store the cluster id that a broker reported. Raise `WrongCluster` if it is not this cluster's."""
        if self.cluster_id and cluster_id != self.cluster_id:
            self.replaced_by = cluster_id
        else:
            self.cluster_id = cluster_id
        self.check()

    def is_of_another(self, cluster_id: str, now_ms: int) -> bool:
        """Return True if a newly connected broker belongs to another cluster. That alone may be one misassigned
        address; mark the cluster as replaced if none of its own brokers has been connected for a while."""
        is_of_own = cluster_id == self.cluster_id
        if is_of_own or any(reaches_own() for reaches_own in self._reaches_own):
            self._strangers_since_ms = None
        elif self._strangers_since_ms is None:
            self._strangers_since_ms = now_ms
        elif now_ms - self._strangers_since_ms >= REPLACED_AFTER_MS:
            self.replaced_by = cluster_id
        return not is_of_own

    def check(self) -> None:
        """Raise `WrongCluster` if the cluster was replaced."""
        if self.replaced_by is not None:
            raise WrongCluster(
                f"at these addresses there is another cluster by now, {self.replaced_by!r} in place of "
                f"{self.cluster_id!r}: make a new client to use it"
            )
