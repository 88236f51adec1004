"""Checks that topic configurations are linearizable, each setting being a register. Pure.

A register whose values are each written once needs no search: the calls that wrote and read a value bound the time in
which the register must have held it, and the history is linearizable if these times do not conflict (Gibbons and
Korach, "Testing shared memories"). If a value is written twice, a read of it may have seen either write, so those
registers use the bounded search in `linearizability`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf

from lograft.chaos.checkers.anomalies import Anomaly, AnomalyName, anomaly
from lograft.chaos.harness.outcome import Outcome
from lograft.chaos.history.entries import ConfigRead, ConfigTold, ConfigWrite, ended, outcome_of
from lograft.chaos.history.history_index import HistoryIndex
from lograft.chaos.raft.linearizability import Operation, is_linearizable
from lograft.chaos.raft.register_machine import Kind

Call = ConfigWrite | ConfigRead


def metadata_linearizability(index: HistoryIndex) -> Iterator[Anomaly]:
    registers: dict[tuple[str, str], list[Call]] = {}
    for entry in index.history.entries:
        if isinstance(entry, ConfigWrite | ConfigRead) and outcome_of(entry) is not Outcome.FAIL:
            registers.setdefault((entry.topic, entry.name), []).append(entry)
    for (topic, name), calls in registers.items():
        written = [call.value for call in calls if isinstance(call, ConfigWrite)]
        found = _conflicts(calls) if len({*written}) == len(written) else _search(calls)
        for what, evidence in found:
            yield anomaly(AnomalyName.METADATA_NOT_LINEARIZABLE, f"{name} of {topic} {what}", *evidence)


Conflict = tuple[str, list[Call]]


@dataclass(frozen=True, slots=True)
class _Zone:
    """A value and two moments. If the first return precedes the last call, the register held the value all the time
    between them; otherwise it held it at some moment from the last call to the first return."""

    value: str | None
    first_return: float
    last_call: float
    calls: list[Call]  # the evidence

    @property
    def is_lasting(self) -> bool:
        return self.first_return < self.last_call

    def excludes(self, other: "_Zone") -> bool:
        """Return whether this lasting value leaves no moment for the other one."""
        low, high = sorted((other.first_return, other.last_call))
        return self.first_return < low and high < self.last_call


def _conflicts(calls: Sequence[Call]) -> Iterator[Conflict]:
    """Yield all conflicts of a register whose values were each written once."""
    writes = {call.value: call for call in calls if isinstance(call, ConfigWrite)}
    reads: dict[str | None, list[ConfigRead]] = {}
    for call in calls:
        if isinstance(call, ConfigRead) and isinstance(call.completion, ConfigTold):
            reads.setdefault(call.completion.value, []).append(call)
    zones = []
    for value in dict.fromkeys([*reads, *writes]):
        write, of_value = writes.get(value) if value is not None else None, reads.get(value, [])
        if value is not None and write is None:
            yield f"was read as {value}, which nobody wrote", [*of_value]
        elif write is not None and (early := [read for read in of_value if _returned(read) < _called(write)]):
            yield f"was read as {value} before that was written", [*early, write]
        elif of_value or (write is not None and outcome_of(write) is Outcome.OK):
            zones.append(_zone(value, write, of_value))
    lasting = sorted((zone for zone in zones if zone.is_lasting), key=lambda zone: zone.first_return)
    clashes = [(one, other) for one, other in pairwise(lasting) if other.first_return < one.last_call]
    clashes += [(one, other) for other in zones if not other.is_lasting for one in lasting if one.excludes(other)]
    for one, other in clashes:
        yield f"would have been {one.value} and {other.value} at one time", [*one.calls, *other.calls]


def _zone(value: str | None, write: ConfigWrite | None, reads: list[ConfigRead]) -> _Zone:
    """Return the value's zone. Without a write, it is the initial value."""
    calls: list[Call] = [*reads] if write is None else [write, *reads]
    first, last = min(calls, key=_returned), max(calls, key=_called)
    first_return = -inf if write is None else _returned(first)
    shown = [first, last] if write is None else [write, first, last]
    return _Zone(value, first_return, _called(last), shown)


def _called(call: Call) -> float:
    return call.invoked.monotonic_us


def _returned(call: Call) -> float:
    moment = ended(call)
    return inf if moment is None else moment.monotonic_us


# -- values written more than once


def _search(calls: Sequence[Call]) -> Iterator[Conflict]:
    if not is_linearizable([_operation(call) for call in calls]):
        yield "was read so that no order of the calls explains it", [*calls]


def _operation(call: Call) -> Operation:
    called, moment, outcome = call.invoked.monotonic_us, ended(call), outcome_of(call)
    returned = None if moment is None else moment.monotonic_us
    if isinstance(call, ConfigWrite):
        return Operation(0, Kind.WRITE, call.name, call.value, called, returned, outcome)
    told = call.completion
    seen = ((told.value,) if told.value is not None else ()) if isinstance(told, ConfigTold) else None
    return Operation(0, Kind.READ, call.name, "", called, returned, outcome, seen)
