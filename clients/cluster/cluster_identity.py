"""Which cluster a client belongs to: the first one that it learnt of. Pure.

Another cluster may take its place at the same addresses, with topics and groups of the same names. What a client knows
is wrong there, and what it sends was meant for the first: so it uses a connection only if its own cluster answers it.
"""

from collections.abc import Callable

from lograft.clients.errors import WrongCluster

REPLACED_AFTER_MS = 3000
"""Another cluster that has answered for so long, and none of the own brokers, took its place. Every other address is
tried much sooner: a broker that restarts while another's address is in wrong hands ends no client."""


class ClusterIdentity:
    """`cluster_id`: empty until it is known. `replaced_by`: the other cluster, once only that one answers."""

    def __init__(self) -> None:
        self.cluster_id = ""
        self.replaced_by: str | None = None
        self._reaches_own: list[Callable[[], bool]] = []
        self._strangers_since_ms: int | None = None  # since when another cluster answers, and the own one does not

    @property
    def is_replaced(self) -> bool:
        return self.replaced_by is not None

    def watch(self, reaches_own: Callable[[], bool]) -> None:
        """`reaches_own` tells whether some connections are open to brokers of this cluster."""
        self._reaches_own.append(reaches_own)

    def learn(self, cluster_id: str) -> None:
        """Take note of the cluster that a broker tells. Raise `WrongCluster` if it is another one."""
        if self.cluster_id and cluster_id != self.cluster_id:
            self.replaced_by = cluster_id
        else:
            self.cluster_id = cluster_id
        self.check()

    def is_of_another(self, cluster_id: str, now_ms: int) -> bool:
        """Return whether a broker that was connected anew is of another cluster. That alone is one address in wrong
        hands; if no broker of the own cluster is connected, and none has been for a while, the cluster was replaced."""
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
