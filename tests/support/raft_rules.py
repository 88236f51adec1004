"""What must hold of a Raft cluster after every step (Raft, figure 3; DESIGN §4). It is told each thing a node did."""

from dataclasses import dataclass, field

from support.raft_cluster import Node, RaftCluster

from lograft.raft.core.configuration import Member
from lograft.raft.core.entries import Entry, Payload
from lograft.raft.core.roles import Leader


@dataclass(slots=True)
class Seen:
    """Of one member: what it was when last looked at."""

    incarnation: int = 0
    term: int = 0
    commit_index: int = 0
    applied_index: int = 0


@dataclass(frozen=True, slots=True)
class Committed:
    """An entry, and the term of the leader that was first to call it committed."""

    entry: Entry
    leader_term: int


@dataclass(slots=True)
class Rules:
    """Watches `cluster` from now on; a broken rule is an AssertionError that tells the story."""

    cluster: RaftCluster
    committed: dict[int, Committed] = field(default_factory=dict)
    _leaders: dict[int, Member] = field(default_factory=dict)
    _written: dict[tuple[int, int], tuple[int, Payload]] = field(default_factory=dict)
    _votes: dict[tuple[Member, int], Member] = field(default_factory=dict)
    _seen: dict[Member, Seen] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.cluster.watch = self.check

    def check(self, node: Node) -> None:
        try:
            self._check(node)
        except AssertionError as broken:
            raise AssertionError(f"{broken}\n{self.cluster.story()}") from broken

    def _check(self, node: Node) -> None:
        core = node.core
        assert core is not None
        seen = self._seen.setdefault(node.member, Seen())
        self._check_monotonic(node, seen)
        self._check_one_vote_a_term(node)
        self._check_log_matching(node)
        if isinstance(core.role, Leader):
            self._check_one_leader_a_term(node)
            self._check_durable_on_a_majority(node, seen.commit_index)
        self._check_commits_agree(node, seen.commit_index)
        self._check_applied(node)
        if isinstance(core.role, Leader):
            self._check_leader_completeness(node)
        seen.incarnation, seen.term = node.incarnation, core.term
        seen.commit_index, seen.applied_index = core.log.commit_index, node.applied_index

    def _check_monotonic(self, node: Node, seen: Seen) -> None:
        core = node.core
        assert core is not None
        assert core.term >= seen.term, f"{node.member} goes back from term {seen.term} to {core.term}"
        if seen.incarnation == node.incarnation:
            assert core.log.commit_index >= seen.commit_index, f"{node.member} takes back its commit index"
            assert node.applied_index >= seen.applied_index, f"{node.member} takes back what it applied"
        else:
            seen.commit_index = core.log.snapshot.index
        assert node.applied_index <= core.log.commit_index <= core.log.last_index
        assert core.log.stable_index <= core.log.last_index
        assert (node.disk.hard_state.term, node.disk.hard_state.vote) == (core.term, core.vote)

    def _check_one_vote_a_term(self, node: Node) -> None:
        """Across restarts: the disk is what counts."""
        saved = node.disk.hard_state
        if saved.vote is not None:
            first = self._votes.setdefault((node.member, saved.term), saved.vote)
            assert first == saved.vote, f"{node.member} votes in term {saved.term} for {first} and for {saved.vote}"

    def _check_one_leader_a_term(self, node: Node) -> None:
        assert node.core is not None
        first = self._leaders.setdefault(node.core.term, node.member)
        assert first == node.member, f"{first} and {node.member} both lead in term {node.core.term}"

    def _check_log_matching(self, node: Node) -> None:
        """An entry's index and term decide what it is and what comes before it; by induction, the whole log."""
        assert node.core is not None
        log = node.core.log
        previous_term = log.snapshot.term
        for entry in log.between(log.snapshot.index, log.last_index):
            key, value = (entry.index, entry.term), (previous_term, entry.payload)
            assert self._written.setdefault(key, value) == value, f"two different entries {entry.index}.{entry.term}"
            previous_term = entry.term

    def _check_durable_on_a_majority(self, leader: Node, seen_index: int) -> None:
        """What a leader has newly called committed is on the disks of most of the voters it goes by."""
        core = leader.core
        assert core is not None
        by_member = {node.member: node.disk for node in self.cluster.nodes.values()}
        for index in range(max(seen_index, core.log.snapshot.index) + 1, core.log.commit_index + 1):
            term = core.log.term_at(index)
            assert term is not None
            have = [member for member, disk in by_member.items() if disk.has(index, term)]
            assert core.configuration.is_majority(lambda voter, have=have: voter in have), (  # type: ignore[misc]
                f"{leader.member} calls {index}.{term} committed, but only {list(map(str, have))} have it on disk"
            )

    def _check_commits_agree(self, node: Node, seen_index: int) -> None:
        core = node.core
        assert core is not None
        for entry in core.log.between(max(seen_index, core.log.snapshot.index), core.log.commit_index):
            first = self.committed.setdefault(entry.index, Committed(entry, core.term))
            assert first.entry == entry, f"{node.member} commits {entry}, where {first.entry} was committed"
        snapshot = core.log.snapshot
        if snapshot.index in self.committed:
            assert self.committed[snapshot.index].entry.term == snapshot.term, f"{snapshot} is of another history"

    def _check_applied(self, node: Node) -> None:
        for entry in node.applied_now:
            assert self.committed[entry.index].entry == entry, f"{node.member} applied {entry}, which is not committed"
        node.applied_now.clear()

    def _check_leader_completeness(self, leader: Node) -> None:
        """A leader has every entry that was committed in an earlier term."""
        core = leader.core
        assert core is not None
        for index in range(core.log.snapshot.index + 1, max(self.committed, default=0) + 1):
            known = self.committed.get(index)
            if known is not None and known.leader_term < core.term:
                has = core.log.matches(index, known.entry.term)
                assert has, f"{leader.member} leads term {core.term} without {index}.{known.entry.term}"
