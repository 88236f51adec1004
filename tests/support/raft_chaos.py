"""Random lives of a Raft cluster: whatever may happen to messages and nodes happens, in an order one seed gives."""

from collections.abc import Callable

from support.raft_cluster import CrashPoint, RaftCluster, member
from support.raft_rules import Rules

from lograft.raft.core.configuration import AddLearner, ConfigurationChange, PromoteLearner, RemoveMember
from lograft.raft.core.raft_core import RaftLimits
from lograft.runtime.rng import Rng

NODES = 5
MIN_VOTERS = 3
MAX_IN_NETWORK = 120
# Small, so that every limit is met.
LIMITS = RaftLimits(max_append_bytes=120, max_in_flight=3, max_in_flight_bytes=300, max_applied_bytes=100)
ELECTION_MS = 6_000
CALM_MS = 2_500


class RaftChaos:
    """One random life; `live` returns what it saw, so that a test can tell that it saw enough."""

    def __init__(self, seed: int) -> None:
        self.rng = Rng(seed)
        voters = self.rng.choice([MIN_VOTERS, NODES])
        spare = range(voters + 1, NODES + 1)
        self.cluster = RaftCluster(voters, empty=tuple(spare), limits=LIMITS, seed=seed)
        self.rules = Rules(self.cluster)
        self.commands = 0
        self.reads = 0
        self.read_floors: dict[tuple[int, int, int], int] = {}
        self.counts: dict[str, int] = {}
        self.actions: list[tuple[int, Callable[[], bool]]] = [
            (350, self.deliver),
            (30, self.drop),
            (30, self.duplicate),
            (120, self.pass_time),
            (60, self.propose),
            (20, self.read),
            (8, self.crash),
            (16, self.restart),
            (10, self.break_connection),
            (5, self.partition),
            (10, self.heal),
            (30, self.change_members),
            (6, self.transfer),
            (8, self.take_snapshot),
        ]

    def live(self, steps: int) -> dict[str, int]:
        """Live; then let all faults end, and see that the cluster comes to agree."""
        # Each life has a temper of its own: what is rare in one is frequent in another.
        weights = [weight * self.rng.choice([0.2, 1, 1, 4]) for weight, _ in self.actions]
        chosen = self.rng.choices([action for _, action in self.actions], weights, k=steps)
        for action in chosen:
            if action():
                self.counts[action.__name__] = self.counts.get(action.__name__, 0) + 1
            self.check_reads()
        self.calm_down()
        return self.counts

    def victim(self) -> int:
        """Some node that is up; a leader more often than others, since that has consequences."""
        among = self.cluster.leaders if self.cluster.leaders and self.rng.random() < 0.5 else self.cluster.up
        return self.rng.choice(among)

    # -- messages

    def deliver(self) -> bool:
        """Mostly in order, as a connection delivers; sometimes not."""
        network = self.cluster.network
        if not network:
            return self.wait()
        place = 0 if self.rng.random() < 0.7 else self.rng.randrange(len(network))
        self.cluster.deliver_one(network.pop(place))
        return True

    def drop(self) -> bool:
        network = self.cluster.network
        if not network:
            return False
        how_many = len(network) if len(network) > MAX_IN_NETWORK else 1
        for _ in range(how_many):
            self.cluster.drop_one(network.pop(self.rng.randrange(len(network))))
        return True

    def duplicate(self) -> bool:
        network = self.cluster.network
        if not network or len(network) > MAX_IN_NETWORK:
            return False
        network.insert(self.rng.randrange(len(network) + 1), self.rng.choice(network))
        return True

    def partition(self) -> bool:
        self.cluster.heal()
        victim = self.victim()
        other = self.rng.choice([node_id for node_id in self.cluster.nodes if node_id != victim])
        match self.rng.randrange(4):
            case 0:
                self.cluster.isolate(victim)
            case 1:
                self.cluster.isolate(victim, other)
            case 2:
                self.cluster.cut(victim, other)
            case _:
                self.cluster.cut(other, victim)
        return True

    def heal(self) -> bool:
        self.cluster.heal()
        return True

    def break_connection(self) -> bool:
        node_id, other = self.rng.sample(range(1, NODES + 1), 2)
        if node_id not in self.cluster.up:
            return False
        self.cluster.break_connection(node_id, other)
        return True

    # -- time

    def pass_time(self) -> bool:
        """A little time; one of those who are due notices."""
        cluster = self.cluster
        cluster.now_ms += self.rng.choice([1, 2, 5, 20, 100])
        due = [node_id for node_id in cluster.up if cluster.core(node_id).deadline_ms <= cluster.now_ms]
        if due:
            cluster.tick(self.rng.choice(due))
        return bool(due)

    def wait(self) -> bool:
        """Nothing is in flight: go to when the next node is due."""
        cluster = self.cluster
        if cluster.up:
            next_id = min(cluster.up, key=lambda node_id: cluster.core(node_id).deadline_ms)
            cluster.now_ms = max(cluster.now_ms, cluster.core(next_id).deadline_ms)
            cluster.tick(next_id)
        return False

    # -- nodes

    def crash(self) -> bool:
        """At any point of what the node was about to do."""
        if len(self.cluster.up) < MIN_VOTERS:
            return False
        node_id = self.victim()
        core = self.cluster.core(node_id)
        waiting = [envelope for envelope in self.cluster.network if envelope.recipient == core.member]
        waiting = self.rng.sample(waiting, min(len(waiting), 1))
        for envelope in waiting:
            core.step(envelope.message, self.cluster.now_ms)
        core.propose(b"lost?")
        self.cluster.carry_out(node_id, self.rng.choice(list(CrashPoint)))
        if node_id in self.cluster.up:
            self.cluster.crash(node_id)
        for envelope in waiting:
            self.cluster.network.remove(envelope)
            self.cluster.drop_one(envelope)  # to its sender it looks lost
        return True

    def restart(self) -> bool:
        down = [node_id for node_id in self.cluster.nodes if node_id not in self.cluster.up]
        if not down:
            return False
        self.cluster.restart(self.rng.choice(down))
        return True

    # -- requests

    def propose(self) -> bool:
        self.commands += 1
        data = f"c{self.commands}".encode() * self.rng.choice([1, 1, 1, 30])
        indexes = [self.cluster.propose(node_id, data) for node_id in self.cluster.leaders]
        return any(indexes)

    def read(self) -> bool:
        if not self.cluster.up:
            return False
        node_id = self.rng.choice(self.cluster.up)
        self.reads += 1
        incarnation = self.cluster.nodes[node_id].incarnation
        self.read_floors[(node_id, incarnation, self.reads)] = max(self.rules.committed, default=0)
        self.cluster.read(node_id, self.reads)
        return True

    def check_reads(self) -> None:
        """A read is answered as of no earlier than all that was committed when it was asked."""
        for node_id, node in self.cluster.nodes.items():
            for read_id, index in node.reads.items():
                floor = self.read_floors.pop((node_id, node.incarnation, read_id), None)
                if index is not None and floor is not None:
                    self.counts["answered"] = self.counts.get("answered", 0) + 1
                    assert index >= floor, f"read {read_id} as of {index}, with {floor} committed before it\n" + (
                        self.cluster.story()
                    )
            node.reads.clear()

    def change_members(self) -> bool:
        if not self.cluster.leaders:
            return False
        node_id = self.rng.choice(self.cluster.leaders)
        now = self.cluster.core(node_id).configuration
        target = member(self.rng.randint(1, NODES))
        change: ConfigurationChange = AddLearner(target)
        if target in now.learners and self.rng.random() < 0.8:
            change = PromoteLearner(target)
        elif target in now.members:
            change = RemoveMember(target)
        if target in now.voters and len(now.voters) <= MIN_VOTERS:
            return False  # or else one crash stops everything
        return self.cluster.change(node_id, change) is not None

    def transfer(self) -> bool:
        if not self.cluster.leaders:
            return False
        return self.cluster.transfer(self.rng.choice(self.cluster.leaders), self.rng.randint(1, NODES))

    def take_snapshot(self) -> bool:
        if not self.cluster.up:
            return False
        self.cluster.take_snapshot(self.rng.choice(self.cluster.up))
        return True

    # -- the end

    def calm_down(self) -> None:
        """With no more faults, there is soon a leader, and everyone who takes part has everything."""
        cluster = self.cluster
        cluster.heal()
        for node_id in cluster.nodes:
            if node_id not in cluster.up:
                cluster.restart(node_id)
        cluster.elect_somebody(within_ms=ELECTION_MS)
        cluster.pass_time(CALM_MS)
        (leader,) = cluster.leaders
        assert cluster.propose(leader, b"the end"), cluster.story()
        cluster.pass_time(1_000)
        for participant in cluster.core(leader).configuration.members:
            state = cluster.nodes[participant.node_id].state
            assert state == cluster.nodes[leader].state, f"{participant} differs\n{cluster.story()}"
            assert state.endswith(b"the end"), cluster.story()
