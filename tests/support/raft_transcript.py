"""Raft messages and roles in a line each, for people who read why a test failed."""

from lograft.raft.core.configuration import Configuration
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
from lograft.raft.core.ready import Ready
from lograft.raft.core.roles import Candidate, Follower, Leader, PreCandidate, Role

_LONG = 20


def describe(envelope: Envelope) -> str:
    message = envelope.message
    route = f"{message.sender.node_id} -> {envelope.recipient.node_id}"
    return f"{route} {type(message).__name__} term {message.term}{_details(message)}"


def _details(message: Message) -> str:
    match message:
        case PreVoteRequest():
            return f", log ends at {message.last_index}.{message.last_term}"
        case VoteRequest():
            transfer = ", asked to stand" if message.is_transfer else ""
            return f", log ends at {message.last_index}.{message.last_term}{transfer}"
        case PreVoteResponse() | VoteResponse():
            return ": yes" if message.is_granted else ": no"
        case AppendRequest():
            after = f"after {message.previous_index}.{message.previous_term}"
            return f", {after}: {describe_entries(message.entries)}, commit {message.commit_index}"
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


def describe_entries(entries: tuple[Entry, ...]) -> str:
    return " ".join(map(_entry, entries)) or "nothing"


def _entry(entry: Entry) -> str:
    match entry.payload:
        case Command(data=data):
            shown = data.decode(errors="replace") if len(data) < _LONG else f"({len(data)} bytes)"
            return f"{entry.index}.{entry.term}={shown}"
        case NewConfiguration(configuration=configuration):
            return f"{entry.index}.{entry.term}=({describe_configuration(configuration)})"
        case _:
            return f"{entry.index}.{entry.term}"


def describe_configuration(configuration: Configuration) -> str:
    voters = ",".join(str(each.node_id) for each in configuration.voters) or "none"
    learners = ",".join(str(each.node_id) for each in configuration.learners)
    return f"voters {voters}" + (f" learners {learners}" if learners else "")


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


def describe_ready(ready: Ready) -> list[str]:
    """What the core wants done, in order."""
    lines = [f"at once: {describe(envelope)}" for envelope in ready.messages_now]
    if ready.hard_state is not None:
        vote = ready.hard_state.vote.node_id if ready.hard_state.vote is not None else "nobody"
        lines.append(f"save: term {ready.hard_state.term}, vote for {vote}, commit {ready.hard_state.commit_index}")
    if ready.snapshot is not None:
        lines.append(f"save: snapshot {ready.snapshot.metadata.index}.{ready.snapshot.metadata.term}")
    if ready.entries:
        lines.append(f"save: {describe_entries(ready.entries)}")
    lines += [f"then: {describe(envelope)}" for envelope in ready.messages]
    lines += [
        f"then: snapshot at {each.metadata.index} to {each.recipient.node_id}" for each in ready.snapshots_to_send
    ]
    if ready.committed:
        lines.append(f"apply: {describe_entries(ready.committed)}")
    return lines
