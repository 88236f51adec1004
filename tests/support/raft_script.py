"""Raft scenarios as text: commands, and what the cluster did.

A script is a file of scenarios. A line that starts with `> ` is a command; the indented lines after it are what it
caused, in order: messages as they arrive, changes of role, what is applied; then, marked `...`, the messages that it
left in flight. A scenario starts at a line with `## `; all other lines are comments, and stay as they are.

    > cluster 3 empty=4 max_in_flight=3    nodes 1 to 3 vote; 4 starts with an empty store
    > quietly elect 1                      any command: prints nothing
    > pass 500                             each node ticks when due, and messages arrive at once; hides heartbeats
    > later 500                            only the clock moves
    > deliver AppendRequest to=2           likewise `drop` and `duplicate`; without words: all messages
    > send 2 VoteRequest from=3 term=1 last=0.0
    > ready 1 propose x                    one step, and what its Ready wants done before and after the disk
    > begin 1 propose x                    one step, and nothing that it asks for is done yet
    > crash 1 before-save propose x        one step, but the power fails on the way
    > crash 1 after-save next              likewise with the next message to 1; its sender sees it lost
    > state 1                              role, configuration, log, commit index, peers

`make raft-scripts` records all scripts anew; review what changed as text.
"""

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import get_args

from support.raft_cluster import CrashPoint, RaftCluster, log_of_terms, member
from support.raft_transcript import describe, describe_configuration, describe_entries, describe_ready, describe_role

from lograft.raft.core.configuration import (
    AddLearner,
    ConfigurationChange,
    Member,
    PromoteLearner,
    RemoveMember,
    configuration,
)
from lograft.raft.core.entries import Command, Entry, NewConfiguration, SnapshotMetadata
from lograft.raft.core.messages import (
    AppendRequest,
    AppendResponse,
    Heartbeat,
    InstallSnapshot,
    Message,
    PreVoteRequest,
    PreVoteResponse,
    TimeoutNow,
    VoteRequest,
    VoteResponse,
)
from lograft.raft.core.peer_progress import Probe, ReceiveSnapshot, Replicate
from lograft.raft.core.raft_core import RaftLimits
from lograft.raft.core.roles import Leader

SCRIPTS = Path(__file__).parents[1] / "unit" / "raft" / "core" / "scripts"

_COMMAND = "> "
_OUTPUT = "    "
_SCENARIO = "## "
_LIMITS = {each.name for each in fields(RaftLimits)}
_CHANGES: dict[str, Callable[[Member], ConfigurationChange]] = {
    "add": AddLearner,
    "promote": PromoteLearner,
    "remove": RemoveMember,
}


def scenarios(text: str) -> list[str]:
    """The preamble of a script, and its scenarios; together they are the script."""
    return re.split(rf"^(?={_SCENARIO})", text, flags=re.MULTILINE)


def title(scenario: str) -> str:
    return scenario.partition("\n")[0].removeprefix(_SCENARIO)


def played(scenario: str) -> str:
    """The same scenario, with what its commands cause now."""
    script = _Script()
    lines: list[str] = []
    for line in scenario.splitlines():
        if line.startswith(_OUTPUT):
            continue
        lines.append(line)
        if line.startswith(_COMMAND):
            lines += [_OUTPUT + each for each in script.run(line.removeprefix(_COMMAND))]
    return "\n".join(lines) + "\n"


class _Script:
    """Plays one scenario."""

    def __init__(self) -> None:
        self._cluster = RaftCluster(0)

    def run(self, command: str) -> list[str]:
        """Carry out a command; what it caused."""
        words = command.split()
        is_quiet = words[0] == "quietly"
        if is_quiet:
            words = words[1:]
        hides_heartbeats = words[0] in ("pass", "elect-somebody")
        in_flight = [id(envelope) for envelope in self._cluster.network]
        self._cluster.transcript.clear()
        answer = list(self._carry_out(words))
        if is_quiet:
            return []
        told = self._cluster.transcript
        if hides_heartbeats:
            told = [line for line in told if " Heartbeat" not in line]
        left = [describe(each) for each in self._cluster.network if id(each) not in in_flight]
        lines = [*answer, *told] if words[0] == "ready" else [*told, *answer]
        return [*lines, *(f"   ... {each}" for each in left)]

    def _carry_out(self, words: list[str]) -> Iterator[str]:
        verb, *rest = words
        named = dict(word.split("=", 1) for word in rest if "=" in word)
        plain = [word for word in rest if "=" not in word]
        match verb, plain:
            case "cluster", [voters]:
                limits = {name: int(value) for name, value in named.items() if name in _LIMITS}
                empty = _numbers(named.get("empty", ""))
                self._cluster = RaftCluster(int(voters), empty=empty, limits=RaftLimits(**limits))
            case "store", [node]:
                self._store(int(node), named)
                self._cluster.transcript.clear()
            case "send", [node, *_]:
                self._cluster.step(int(node), self._message(rest[1], named))
            case "ready", [node, *_]:
                yield from self._ready(int(node), rest[1:])
            case "begin", [node, *_]:
                self._begin(int(node), rest[1:])
            case "crash", [node, point, *_]:
                self._begin(int(node), rest[2:], takes_it=False)
                self._cluster.carry_out(int(node), CrashPoint[point.replace("-", "_").upper()])
            case (("deliver" | "drop" | "duplicate"), _):
                self._handle(verb, plain, named)
            case "state", _:
                for node in plain or map(str, self._cluster.nodes):
                    yield from self._state(int(node))
            case "propose", [node, *commands]:
                yield from self._propose(int(node), commands)
            case "change", [node, change, who, *again]:
                wanted = self._cluster.member(int(who)) if not again else member(int(who), int(again[0]))
                index = self._cluster.change(int(node), _CHANGES[change](wanted))
                assert index is None or index > 0
            case "read", [node, read_id]:
                self._cluster.read(int(node), int(read_id))
                yield f"reads of {node}: {self._cluster.nodes[int(node)].reads}"
            case "isolate", _:
                self._cluster.isolate(*map(int, plain))
            case "later", [ms]:
                self._cluster.now_ms += int(ms)
            case "elect-somebody", [ms]:
                leader = self._cluster.elect_somebody(int(ms))
                yield f"{leader} leads, and has committed in its term"
            case "heal", []:
                self._cluster.heal()
            case "settle", []:
                self._cluster.settle()
            case _:
                self._of_numbers(verb)(*map(int, plain))

    def _of_numbers(self, verb: str) -> Callable[..., object]:
        """Commands that are a method of the cluster, and take nothing but numbers."""
        cluster = self._cluster
        commands: dict[str, Callable[..., object]] = {
            "elect": cluster.elect, "time-out": cluster.time_out, "tick": cluster.tick, "pass": cluster.pass_time,
            "cut": cluster.cut, "break": cluster.break_connection, "crash": cluster.crash, "restart": cluster.restart,
            "wipe": cluster.wipe, "transfer": cluster.transfer, "snapshot": cluster.take_snapshot,
        }  # fmt: skip
        return commands[verb]

    def _store(self, node_id: int, named: dict[str, str]) -> None:
        term = int(named["term"]) if "term" in named else None
        entries = log_of_terms(*_numbers(named.get("log", "")))
        self._cluster.store(node_id, entries, term=term, commit_index=int(named.get("commit", "0")))

    def _propose(self, node_id: int, commands: list[str]) -> Iterator[str]:
        """Several at once: the node carries them out together."""
        indexes = [self._cluster.core(node_id).propose(_data(command)) for command in commands]
        self._cluster.carry_out(node_id)
        yield f"{node_id} takes it as {', '.join(map(str, indexes))}" if None not in indexes else f"{node_id} refuses"

    def _handle(self, verb: str, plain: list[str], named: dict[str, str]) -> None:
        kind = _MESSAGES_BY_NAME[plain[0]] if plain else None
        by, to = (int(named[name]) if name in named else None for name in ("from", "to"))
        getattr(self._cluster, verb)(kind, by=by, to=to)

    def _ready(self, node_id: int, step: list[str]) -> Iterator[str]:
        self._begin(node_id, step)
        ready = self._cluster.core(node_id).ready()
        if ready is None:
            yield f"{node_id} wants nothing done"
            return
        yield from describe_ready(ready)
        self._cluster.carry_out_one(node_id, ready)
        self._cluster.carry_out(node_id)

    def _begin(self, node_id: int, step: list[str], *, takes_it: bool = True) -> None:
        """Give the core something to do, without carrying it out. `takes_it`: a message is no longer in flight."""
        core = self._cluster.core(node_id)
        named = dict(word.split("=", 1) for word in step if "=" in word)
        match step:
            case []:
                pass
            case ["propose", *commands]:
                for command in commands:
                    core.propose(_data(command))
            case ["tick"]:
                core.tick(self._cluster.now_ms)
            case ["next"]:
                envelope = next(each for each in self._cluster.network if each.recipient == core.member)
                if takes_it:
                    self._cluster.network.remove(envelope)
                core.step(envelope.message, self._cluster.now_ms)
            case [name, *_]:
                core.step(self._message(name, named), self._cluster.now_ms)

    def _message(self, name: str, named: dict[str, str]) -> Message:
        sender = member(*_numbers(named["from"]))
        term = int(named["term"])
        last_index, last_term = _pair(named.get("last", "0.0"))
        match name:
            case "PreVoteRequest":
                return PreVoteRequest(sender, term, last_index, last_term)
            case "VoteRequest":
                return VoteRequest(sender, term, last_index, last_term, named.get("transfer") == "yes")
            case "PreVoteResponse":
                return PreVoteResponse(sender, term, named["granted"] == "yes")
            case "VoteResponse":
                return VoteResponse(sender, term, named["granted"] == "yes")
            case "AppendRequest":
                after = _pair(named.get("after", "0.0"))
                entries = tuple(_entries(after[0], named))
                return AppendRequest(sender, term, *after, entries, int(named.get("commit", "0")))
            case "AppendResponse":
                return AppendResponse(sender, term, int(named["match"]))
            case "Heartbeat":
                return Heartbeat(sender, term, int(named.get("commit", "0")), int(named["round"]))
            case "TimeoutNow":
                return TimeoutNow(sender, term)
            case "InstallSnapshot":
                voters = configuration([member(1), member(2), member(3)])
                return InstallSnapshot(sender, term, SnapshotMetadata(*_pair(named["at"]), voters), b"\nstate")
        raise ValueError(f"no message is called {name}")

    def _state(self, node_id: int) -> Iterator[str]:
        node = self._cluster.nodes[node_id]
        if node.core is None:
            yield f"{node_id} is down"
            return
        core, log = node.core, node.core.log
        vote = core.vote.node_id if core.vote is not None else "nobody"
        yield f"{node_id} is {describe_role(core.role)} of term {core.term}, voted for {vote}"
        yield f"  {describe_configuration(core.configuration)}"
        start = f"snapshot {log.snapshot.index}.{log.snapshot.term}, " if log.snapshot.index else ""
        yield f"  log: {start}{describe_entries(tuple(log.between(log.snapshot.index, log.last_index)))}"
        applied = b" ".join(self._cluster.committed(node_id)).decode() or "nothing"
        yield f"  commit {log.commit_index}, on disk {node.disk.hard_state.commit_index}; state machine: {applied}"
        if isinstance(core.role, Leader):
            for peer, progress in core.role.progress.items():
                if peer != core.member:
                    yield f"  {peer.node_id} {_progress_state(progress.state)}, agrees up to {progress.match_index}"


_MESSAGES_BY_NAME: dict[str, type] = {each.__name__: each for each in get_args(Message)}


def _progress_state(state: Probe | Replicate | ReceiveSnapshot) -> str:
    match state:
        case Probe(is_waiting=is_waiting):
            return "is probed and has not answered" if is_waiting else "is probed"
        case Replicate(in_flight=in_flight):
            return f"replicates, {len(in_flight)} in flight"
        case ReceiveSnapshot(index=index):
            return f"receives the snapshot at {index}"


def _numbers(text: str) -> list[int]:
    return [int(each) for each in text.split(",") if each]


def _pair(text: str) -> tuple[int, int]:
    index, _, term = text.partition(".")
    return int(index), int(term)


def _data(command: str) -> bytes:
    """`400b`: so many bytes; else the command itself."""
    size = re.fullmatch(r"(\d+)b", command)
    return bytes(int(size[1])) if size else command.encode()


def _entries(after: int, named: dict[str, str]) -> Iterator[Entry]:
    """`entries=1,1,2`: of these terms. `voters=1,2`: an entry with these voters, of the message's term, after them."""
    terms = _numbers(named.get("entries", ""))
    for place, term in enumerate(terms, after + 1):
        yield Entry(place, term, Command(f"{place}.{term}".encode()))
    if "voters" in named:
        voters = configuration(member(each) for each in _numbers(named["voters"]))
        yield Entry(after + len(terms) + 1, int(named["term"]), NewConfiguration(voters))


def record() -> None:
    """Write what the scripts cause now into them."""
    for path in sorted(SCRIPTS.glob("*.txt")):
        old = path.read_text()
        preamble, *parts = scenarios(old)
        new = preamble + "".join(f"{played(part).rstrip()}\n\n" for part in parts).rstrip() + "\n"
        if new != old:
            path.write_text(new)
            print(f"recorded {path.name}", file=sys.stderr)


if __name__ == "__main__":
    record()
