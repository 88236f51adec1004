"""The invariants of Raft, checked on every node after each of its steps. Pure.

The checker sees all nodes at once, which no node does. It keeps everything ever committed, sent or elected, and
compares each node's new state with that. The cost of a check is proportional to what the step changed.
"""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from lograft.chaos.harness.failures import InvariantBroken
from lograft.chaos.raft.register_machine import Digest
from lograft.raft.core.configuration import Configuration, Member
from lograft.raft.core.entries import Command, Entry, HardState, NewConfiguration
from lograft.raft.core.messages import (
    AppendRequest,
    AppendResponse,
    Envelope,
    PreVoteRequest,
    PreVoteResponse,
    VoteRequest,
    VoteResponse,
)
from lograft.raft.core.raft_core import RaftCore
from lograft.raft.core.ready import Ready
from lograft.raft.core.roles import Leader


class Durable(Protocol):
    """What a node would find on its disk if it crashed now."""

    @property
    def hard_state(self) -> HardState: ...

    @property
    def last_index(self) -> int: ...

    @property
    def first_index(self) -> int:
        """The first index after the snapshot."""
        ...

    def term_at(self, index: int) -> int | None: ...


@dataclass(slots=True)
class _Node:
    """The last known state of one incarnation of a node."""

    term: int
    vote: Member | None
    commit_index: int
    applied_index: int
    is_leader: bool = False
    configuration_index: int = 0


class RaftInvariants:
    """Report every event to it. It raises `InvariantBroken` when two reports contradict each other."""

    def __init__(
        self,
        initial: Configuration,
        durable: Callable[[Member], Durable],
        on_leader: Callable[[Member, int], None] = lambda member, term: None,
    ) -> None:
        self._on_leader = on_leader
        self._durable = durable
        self.committed_configuration = (0, initial)
        self._nodes: dict[Member, _Node] = {}
        self._leaders: dict[int, Member] = {}
        self._votes: dict[tuple[Member, int], Member] = {}
        self._spoken_terms: dict[Member, int] = {}
        # The one log that all nodes agree on, from index 1; the term in which each entry was committed; and the state
        # that the log leads to, from index 0.
        self.committed: list[Entry] = []
        self._committed_in: list[int] = []
        self._digests: list[Digest] = [Digest()]
        self._positions: dict[bytes, int] = {}
        # For each (index, term) ever written: the term of the previous entry, and the entry. If these are equal on all
        # nodes, logs that agree at one index agree up to it.
        self._written: dict[tuple[int, int], tuple[int | None, Entry]] = {}
        self.elections = 0
        self.truncations = 0
        self.configurations = 0

    # -- events of the simulation

    def started(self, core: RaftCore) -> None:
        """Check a node that starts with only its disk."""
        member = core.member
        spoken = self._spoken_terms.get(member, 0)
        _require(
            core.term >= spoken, "terms never go back", lambda: f"{member} spoke in {spoken}, came back in {core.term}"
        )
        cast = self._votes.get((member, core.term))
        _require(
            cast is None or cast == core.vote,
            "one vote a term",
            lambda: f"{member} forgot {cast} in {core.term}",
        )
        self._check_committed(core, core.log.snapshot.index)
        log = core.log
        self._nodes[member] = _Node(core.term, core.vote, log.snapshot.index, log.applied_index)
        self.stepped(core)

    def stepped(self, core: RaftCore) -> None:
        """Check a node after one input: a message, a tick, a proposal, or the end of a Ready."""
        node = self._nodes[core.member]
        log = core.log
        if core.term != node.term or core.vote != node.vote:
            self._check_term(core, node)
        is_leader = isinstance(core.role, Leader)
        if is_leader and not node.is_leader:
            self._check_new_leader(core)
        if log.commit_index != node.commit_index:
            self._check_commit(core, node, is_leader or node.is_leader)
        if log.applied_index != node.applied_index:
            self._check_applied(core, node)
        if core.configuration_index != node.configuration_index:
            self._check_configuration(core, node, is_leader)
        node.is_leader = is_leader

    def prepared(self, core: RaftCore, ready: Ready) -> None:
        """Check what a node is about to save and send."""
        node, entries = self._nodes[core.member], ready.entries
        if not entries:
            return
        first = entries[0].index
        if first <= self._durable(core.member).last_index and ready.snapshot is None:
            self.truncations += 1
        _require(
            first > node.applied_index,
            "nothing committed is truncated",
            lambda: f"{core.member} rewrites from {first}, has applied {node.applied_index}",
        )
        previous_term = core.log.term_at(first - 1)
        for entry in entries:
            before = self._written.setdefault((entry.index, entry.term), (previous_term, entry))
            if before != (previous_term, entry):
                raise InvariantBroken("logs match", f"{core.member} has {entry} after term {previous_term}")
            previous_term = entry.term

    def sent(self, envelope: Envelope) -> None:
        """Check a message as it leaves its sender. Everything it promises must be durable by now."""
        message = envelope.message
        sender = message.sender
        if isinstance(message, PreVoteRequest | PreVoteResponse):
            return
        durable = self._durable(sender)
        _require(
            durable.hard_state.term >= message.term,
            "said only when durable",
            lambda: f"{sender} says {message}, on disk is {durable.hard_state}",
        )
        match message:
            case VoteResponse(is_granted=True):
                self._check_vote(sender, message.term, envelope.recipient)
            case VoteRequest():
                self._check_vote(sender, message.term, sender)
            case AppendResponse():
                _require(
                    durable.last_index >= message.match_index,
                    "acknowledged is durable",
                    lambda: f"{sender} acknowledges {message.match_index}",
                )
            case AppendRequest():
                self._check_office(sender, message.term)
        self._spoken_terms[sender] = max(self._spoken_terms.get(sender, 0), message.term)

    def applied(self, member: Member, index: int, digest: Digest) -> None:
        """Check a node's state machine, which is now at `index`, because of a command or a snapshot."""
        _require(index <= len(self.committed), "only committed is applied", lambda: f"{member} applied {index}")
        _require(
            digest == self._digests[index],
            "applied exactly once, in one order",
            lambda: f"{member} at {index} is {digest}, should be {self._digests[index]}",
        )

    def acknowledged(self, index: int, data: bytes) -> None:
        """Check an acknowledgement: a client received the answer that its command is at `index`."""
        position = self._positions.get(data)
        _require(position == index, "acknowledged is committed", lambda: f"{data!r} at {index} is found at {position}")

    def check_complete(self, member: Member, index: int, digest: Digest) -> None:
        """Check, at the end, that a member of the cluster has applied the whole log."""
        self.applied(member, index, digest)
        _require(index >= len(self.committed), "all is applied everywhere", lambda: f"{member} stands at {index}")

    # -- rules

    def _check_term(self, core: RaftCore, node: _Node) -> None:
        _require(core.term >= node.term, "terms never go back", lambda: f"{core.member}: {core.term} after {node.term}")
        _require(
            core.term > node.term or node.vote is None,
            "one vote a term",
            lambda: f"{core.member} in term {core.term}: {core.vote} after {node.vote}",
        )
        node.term, node.vote = core.term, core.vote

    def _check_vote(self, voter: Member, term: int, candidate: Member) -> None:
        saved = self._durable(voter).hard_state
        _require(
            saved.term > term or saved.vote == candidate,
            "said only when durable",
            lambda: f"{voter} in term {term} votes for {candidate}, on disk is {saved}",
        )
        earlier = self._votes.setdefault((voter, term), candidate)
        _require(
            earlier == candidate,
            "one vote a term",
            lambda: f"{voter} in {term}: {candidate}, after {earlier}",
        )

    def _check_office(self, sender: Member, term: int) -> None:
        _require(self._leaders.get(term) == sender, "one leader a term", lambda: f"{sender} acts as leader in {term}")

    def _check_new_leader(self, core: RaftCore) -> None:
        self.elections += 1
        self._on_leader(core.member, core.term)
        other = self._leaders.setdefault(core.term, core.member)
        _require(other == core.member, "one leader a term", lambda: f"{core.member} and {other} in term {core.term}")
        # By log matching, the last of these entries stands for all of them.
        must_have = bisect_left(self._committed_in, core.term)
        snapshot_index = core.log.snapshot.index
        has = core.log.term_at(must_have) if must_have > snapshot_index else self._term_of(must_have)
        _require(
            has == self._term_of(must_have),
            "a leader has all that is committed",
            lambda: f"{core.member} in {core.term} has {has} at {must_have}, not {self._term_of(must_have)}",
        )

    def _check_commit(self, core: RaftCore, node: _Node, is_leader: bool) -> None:
        log, member = core.log, core.member
        _require(
            log.commit_index > node.commit_index,
            "commit never goes back",
            lambda: f"{member}: {log.commit_index} after {node.commit_index}",
        )
        if log.snapshot.index > node.commit_index:
            self._check_committed(core, log.snapshot.index)
        if log.commit_index > len(self.committed):
            _require(
                log.term_at(log.commit_index) == core.term,
                "only the own term is counted",
                lambda: f"{member} commits {log.commit_index} of {log.term_at(log.commit_index)} in {core.term}",
            )
        for entry in log.between(max(node.commit_index, log.snapshot.index), log.commit_index):
            if entry.index > len(self.committed):
                self._commit_first(core, entry, is_leader)
            if entry != (ours := self.committed[entry.index - 1]):
                raise InvariantBroken("committed prefixes agree", f"{member} commits {entry}, another {ours}")
        node.commit_index = log.commit_index

    def _commit_first(self, core: RaftCore, entry: Entry, is_leader: bool) -> None:
        """Commit an entry that no node knew to be committed, which only the leader that counts it may do."""
        _require(is_leader, "only leaders decide", lambda: f"{core.member} commits {entry} before any leader")
        _require(
            core.configuration.is_majority(lambda voter: self._is_durable(voter, entry)),
            "committed is durable on a majority",
            lambda: f"{core.member} commits {entry} with {core.configuration}",
        )
        self.committed.append(entry)
        self._committed_in.append(max(core.term, self._committed_in[-1] if self._committed_in else 0))
        digest = self._digests[-1]
        if isinstance(entry.payload, Command):
            data = entry.payload.data
            _require(data not in self._positions, "committed once", lambda: f"{entry}, and {self._positions.get(data)}")
            self._positions[data] = entry.index
            digest = digest.after(data)
        elif isinstance(entry.payload, NewConfiguration):
            self.configurations += 1
            self.committed_configuration = (entry.index, entry.payload.configuration)
        self._digests.append(digest)

    def _is_durable(self, voter: Member, entry: Entry) -> bool:
        log = self._durable(voter)
        return entry.index < log.first_index or log.term_at(entry.index) == entry.term

    def _check_committed(self, core: RaftCore, index: int) -> None:
        """Check that a node's snapshot ends within the committed log, at the right term."""
        _require(index <= len(self.committed), "committed prefixes agree", lambda: f"{core.member} stands on {index}")
        _require(
            core.log.term_at(index) == self._term_of(index),
            "committed prefixes agree",
            lambda: f"{core.member} at {index}",
        )

    def _check_applied(self, core: RaftCore, node: _Node) -> None:
        log = core.log
        _require(
            node.applied_index < log.applied_index <= log.commit_index,
            "applied never goes back, nor ahead",
            lambda: f"{core.member}: {log.applied_index} after {node.applied_index}, committed {log.commit_index}",
        )
        node.applied_index = log.applied_index

    def _check_configuration(self, core: RaftCore, node: _Node, is_leader: bool) -> None:
        """Check that a leader adds a configuration only after its previous one is committed."""
        if is_leader and node.is_leader:
            _require(
                node.configuration_index <= core.log.commit_index,
                "one membership change at a time",
                lambda: (
                    f"{core.member} at {core.configuration_index}, while {node.configuration_index} is not committed"
                ),
            )
        node.configuration_index = core.configuration_index

    def _term_of(self, index: int) -> int:
        return self.committed[index - 1].term if index else 0


def _require(holds: bool, rule: str, what: Callable[[], str]) -> None:
    if not holds:
        raise InvariantBroken(rule, what())
