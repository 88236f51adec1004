"""Checks that clients saw what a single copy of the data would have shown them: histories, and the check. Pure.

An operation is linearizable if it can be placed at one moment between its call and its return. One with an unknown
outcome may take place at any moment after its call, or never. Keys are independent, so each is checked alone (Herlihy
and Wing's locality), by Wing and Gong's search with Lowe's memory of visited states.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise

from lograft.chaos.harness.outcome import Outcome
from lograft.chaos.raft.register_machine import Kind, Value

_MAX_STATES = 200_000


@dataclass(frozen=True, slots=True)
class Operation:
    """One call. `called` and `returned` are positions in the order of all events. `seen` is the value after it."""

    client: int
    kind: Kind
    key: str
    item: str
    called: int
    returned: int | None = None
    outcome: Outcome = Outcome.UNKNOWN
    seen: Value | None = None


class OperationHistory:
    """The calls of clients and their results, in the order in which they happened."""

    def __init__(self) -> None:
        self._moment = 0
        self._operations: list[Operation] = []

    def __len__(self) -> int:
        return len(self._operations)

    def call(self, client: int, kind: Kind, key: str, item: str = "") -> int:
        """Record a call. Return its number, for `end`."""
        self._moment += 1
        self._operations.append(Operation(client, kind, key, item, self._moment))
        return len(self._operations) - 1

    def end(self, number: int, outcome: Outcome, seen: Value | None = None) -> None:
        """Record the outcome of a call. It is unknown if the client gave up."""
        self._moment += 1
        operation = self._operations[number]
        assert operation.returned is None
        self._operations[number] = replace(operation, returned=self._moment, outcome=outcome, seen=seen)

    def operations(self) -> list[Operation]:
        return list(self._operations)

    def count(self, outcome: Outcome) -> int:
        return sum(operation.outcome is outcome for operation in self._operations)


class RegisterAnomaly(Enum):
    """Why a history is not linearizable, as precisely as can be determined."""

    PHANTOM = "a value was seen that nobody wrote, or whose write was refused"
    DUPLICATE = "one write was seen twice"
    LOST_UPDATE = "a write was acknowledged, and a later operation did not see it"
    FORK = "two operations saw lists that disagree about their order"
    STALE_READ = "a read showed less than an earlier operation had already shown"
    NOT_LINEARIZABLE = "no order of the operations explains what was seen"


class NotLinearizable(Exception):
    """Reports the operations on one key that no order explains."""

    def __init__(self, key: str, anomaly: RegisterAnomaly, operations: Sequence[Operation]) -> None:
        super().__init__("\n  ".join([f"key {key}: {anomaly.value}", *map(str, operations)]))
        self.key = key
        self.anomaly = anomaly


def check_linearizable(operations: Iterable[Operation]) -> None:
    """Raise `NotLinearizable` for the first key with operations that no single copy could have answered that way."""
    by_key: dict[str, list[Operation]] = {}
    for operation in operations:
        by_key.setdefault(operation.key, []).append(operation)
    for key, of_key in by_key.items():
        if not is_linearizable(of_key):
            raise NotLinearizable(key, explain(of_key), of_key)


# -- search


def is_linearizable(operations: Sequence[Operation]) -> bool:
    """Return whether some order of the operations on one key respects time and explains everything clients saw."""
    relevant = _relevant(operations)
    everything = sum(1 << place for place, operation in enumerate(relevant) if operation.outcome is Outcome.OK)
    tried: dict[tuple[int, Value], None] = {}
    pending: list[tuple[int, Value]] = [(0, ())]
    while pending:
        done, value = pending.pop()
        if done & everything == everything:
            return True
        for place in _next_places(relevant, done):
            after = _apply(relevant[place], value)
            if after is not None and (state := (done | 1 << place, after)) not in tried:
                tried[state] = None
                pending.append(state)
        assert len(tried) < _MAX_STATES, "too many ways to order this history: make it smaller"
    return False


def _relevant(operations: Sequence[Operation]) -> list[Operation]:
    """Leave out operations that explain nothing: failures, reads without a result, and uncertain writes never seen.

    Such a write can be placed after all other operations.
    """
    seen = {item for operation in operations for item in operation.seen or ()}
    return [
        operation
        for operation in operations
        if operation.outcome is Outcome.OK
        or (operation.outcome is Outcome.UNKNOWN and operation.kind is not Kind.READ and operation.item in seen)
    ]


def _next_places(operations: Sequence[Operation], done: int) -> list[int]:
    """Return the operations that may come next: those called before any other remaining one returned."""
    left = [(place, operation) for place, operation in enumerate(operations) if not done >> place & 1]
    returns = [operation.returned for _, operation in left if operation.outcome is Outcome.OK]
    first_return = min((moment for moment in returns if moment is not None), default=None)
    return [place for place, operation in left if first_return is None or operation.called <= first_return]


def _apply(operation: Operation, value: Value) -> Value | None:
    """Return the value after `operation`, or None if the operation saw another value."""
    match operation.kind:
        case Kind.READ:
            after = value
        case Kind.APPEND:
            after = (*value, operation.item)
        case Kind.WRITE:
            after = (operation.item,)
    return after if operation.seen is None or operation.seen == after else None


# -- names of anomalies


def explain(operations: Sequence[Operation]) -> RegisterAnomaly:
    """Return the most specific description of a history that is not linearizable."""
    answered = [operation for operation in operations if operation.seen is not None]
    possible = {operation.item for operation in operations if operation.outcome is not Outcome.FAIL}
    for operation in answered:
        assert operation.seen is not None
        if [item for item in operation.seen if item not in possible]:
            return RegisterAnomaly.PHANTOM
        if len({*operation.seen}) < len(operation.seen):
            return RegisterAnomaly.DUPLICATE
    if any(operation.kind is Kind.WRITE for operation in operations):
        return RegisterAnomaly.NOT_LINEARIZABLE  # a replaced list says less about earlier operations
    return _explain_lists(operations, answered)


def _explain_lists(operations: Sequence[Operation], answered: Sequence[Operation]) -> RegisterAnomaly:
    """Explain the history of an append-only key. There, each value seen must be a prefix of every longer one."""
    values = sorted((operation.seen for operation in answered if operation.seen is not None), key=len)
    if any(longer[: len(shorter)] != shorter for shorter, longer in pairwise(values)):
        return RegisterAnomaly.FORK
    for later in answered:
        earlier = [one for one in operations if one.returned is not None and one.returned < later.called]
        acknowledged = [one.item for one in earlier if one.outcome is Outcome.OK and one.kind is not Kind.READ]
        if [item for item in acknowledged if item not in (later.seen or ())]:
            return RegisterAnomaly.LOST_UPDATE
        if any(len(one.seen or ()) > len(later.seen or ()) for one in earlier):
            return RegisterAnomaly.STALE_READ
    return RegisterAnomaly.NOT_LINEARIZABLE
