"""Raft messages and roles in a line each, for people who read why a test failed."""

from lograft.raft.core.entries import Command, Entry, NewConfiguration
from lograft.raft.core.messages import (
    AppendRefusal,
    AppendRequest,
    AppendResponse,
    Envelope,
    Heartbeat,
    HeartbeatResponse,
    InstallSnapshot,
    Message,
    PreVoteRequest,
    PreVoteResponse,
    ReadIndexRequest,
    ReadIndexResponse,
    TimeoutNow,
    VoteRequest,
    VoteResponse,
)
from lograft.raft.core.roles import Candidate, Follower, Leader, PreCandidate, Role


def describe(envelope: Envelope) -> str:
    message = envelope.message
    route = f"{message.sender.node_id} -> {envelope.recipient.node_id}"
    return f"{route} {type(message).__name__} term {message.term}{_details(message)}"


def _details(message: Message) -> str:
    match message:
        case PreVoteRequest() | VoteRequest():
            return f", log ends at {message.last_index}.{message.last_term}"
        case PreVoteResponse() | VoteResponse():
            return ": yes" if message.is_granted else ": no"
        case AppendRequest():
            after = f"after {message.previous_index}.{message.previous_term}"
            return f", {after}: {_entries(message.entries)}, commit {message.commit_index}"
        case AppendResponse():
            return f", agrees up to {message.match_index}"
        case AppendRefusal():
            return f", lacks {message.previous_index}, may agree at {message.hint_index}.{message.hint_term}"
        case Heartbeat():
            return f", round {message.round}, commit {message.commit_index}"
        case HeartbeatResponse():
            return f", round {message.round}"
        case InstallSnapshot():
            return f", at {message.metadata.index}.{message.metadata.term}"
        case ReadIndexRequest():
            return f", read {message.read_id}"
        case ReadIndexResponse():
            return f", read {message.read_id} as of {message.index}"
        case TimeoutNow():
            return ""


def _entries(entries: tuple[Entry, ...]) -> str:
    return " ".join(map(_entry, entries)) or "nothing"


def _entry(entry: Entry) -> str:
    match entry.payload:
        case Command(data=data):
            return f"{entry.index}.{entry.term}={data.decode(errors='replace')}"
        case NewConfiguration(configuration=configuration):
            voters = ",".join(str(voter.node_id) for voter in configuration.voters)
            return f"{entry.index}.{entry.term}=voters {voters}"
        case _:
            return f"{entry.index}.{entry.term}"


def describe_role(role: Role) -> str:
    match role:
        case Follower(leader=None):
            return "follower of nobody"
        case Follower(leader=leader):
            return f"follower of {leader.node_id}"
        case PreCandidate():
            return "pre-candidate"
        case Candidate():
            return "candidate"
        case Leader():
            return "leader"
