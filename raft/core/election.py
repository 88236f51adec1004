"""Elections: pre-vote, vote, and when to stand (Raft §5.2, §5.4.1; dissertation §9.6). Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lograft.raft.core import leader as leading
from lograft.raft.core.messages import PreVoteRequest, PreVoteResponse, VoteRequest, VoteResponse
from lograft.raft.core.roles import Candidate, Follower, Leader, PreCandidate

if TYPE_CHECKING:
    from lograft.raft.core.raft_core import RaftCore


# -- standing


def time_out(core: RaftCore) -> None:
    """Stand for election (again): no leader was heard in time, or the last election had no winner."""
    if not core.may_stand:
        core.become_follower(core.term)  # without a leader: there may be one, but not the one this node knew
        return
    core.quick_elections_left = max(core.quick_elections_left - 1, 0)
    core.role = PreCandidate({core.member: True})
    _await_result(core)
    request = PreVoteRequest(core.member, core.term + 1, core.log.last_index, core.log.last_term)
    _ask_voters(core, request)
    _count(core)


def lose_touch(core: RaftCore) -> None:
    """The connection to the leader broke: forget the leader, so that this node can vote for others, and stand soon."""
    core.role = Follower()
    core.quick_elections_left = core.timing.quick_elections
    _await_result(core)


def stand(core: RaftCore, *, is_transfer: bool) -> None:
    """Begin a new term and ask for votes in it."""
    assert core.may_stand
    core.term += 1
    core.vote = core.member
    core.role = Candidate({core.member: True})
    _await_result(core)
    request = VoteRequest(core.member, core.term, core.log.last_index, core.log.last_term, is_transfer)
    _ask_voters(core, request)
    _count(core)


def _await_result(core: RaftCore) -> None:
    """Set a random election timeout, a short one for the first few rounds after the leader's connection broke."""
    core.reset_election_timer()
    if core.quick_elections_left > 0:
        low, high = core.timing.quick_election_min_ms, core.timing.quick_election_max_ms
        core.election_due_ms = core.now_ms + core.rng.randint(low, high)


def _ask_voters(core: RaftCore, request: PreVoteRequest | VoteRequest) -> None:
    for voter in core.configuration.voters:
        if voter != core.member:
            core.send(voter, request)


# -- counting


def count_pre_vote(core: RaftCore, response: PreVoteResponse) -> None:
    is_for_this_round = not response.is_granted or response.term == core.term + 1
    if isinstance(core.role, PreCandidate) and is_for_this_round:
        core.role.votes[response.sender] = response.is_granted
        _count(core)


def count_vote(core: RaftCore, response: VoteResponse) -> None:
    if isinstance(core.role, Candidate) and response.term == core.term:
        core.role.votes[response.sender] = response.is_granted
        _count(core)


def _count(core: RaftCore) -> None:
    role = core.role
    assert isinstance(role, PreCandidate | Candidate)
    votes = role.votes
    if core.configuration.is_majority(lambda voter: votes.get(voter, False)):
        if isinstance(role, PreCandidate):
            stand(core, is_transfer=False)
        else:
            leading.take_office(core)
    elif core.configuration.is_majority(lambda voter: votes.get(voter) is False) and isinstance(role, Candidate):
        core.become_follower(core.term)


# -- voting


def protects_leader(core: RaftCore, request: VoteRequest) -> bool:
    """Return True if the candidate would depose a leader that this node still hears (dissertation §4.2.3)."""
    return not request.is_transfer and request.term > core.term and hears_leader(core)


def hears_leader(core: RaftCore) -> bool:
    """Return True if this node leads, or heard a leader within the shortest election timeout."""
    match core.role:
        case Leader():
            return True  # check-quorum soon deposes a leader that is cut off
        case Follower(leader=leader, contact_ms=contact_ms):
            return leader is not None and core.now_ms - contact_ms < core.timing.election_min_ms
        case _:
            return False


def answer_pre_vote(core: RaftCore, request: PreVoteRequest) -> None:
    """Answer whether this node would vote for the sender; changes no state."""
    is_granted = (
        core.is_initialised
        and request.term > core.term
        and core.log.is_up_to_date(request.last_index, request.last_term)
        and not hears_leader(core)
    )
    term = request.term if is_granted else core.term
    core.send(request.sender, PreVoteResponse(core.member, term, is_granted))


def answer_vote(core: RaftCore, request: VoteRequest) -> None:
    """Vote at most once a term, for a log at least as complete as this one. Even a refusal is sent only after the state
    is durable."""
    is_granted = (
        core.is_initialised
        and request.term == core.term
        and core.vote in (None, request.sender)
        and core.leader is None
        and core.log.is_up_to_date(request.last_index, request.last_term)
    )
    if is_granted:
        core.vote = request.sender
        core.become_follower(core.term)  # ends a candidacy of this node's own
    core.send(request.sender, VoteResponse(core.member, core.term, is_granted))
