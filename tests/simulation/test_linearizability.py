"""The judge of histories: what one copy could have answered, and what not."""

import pytest

from lograft.chaos.harness.outcome import Outcome
from lograft.chaos.raft.linearizability import (
    NotLinearizable,
    Operation,
    OperationHistory,
    RegisterAnomaly,
    check_linearizable,
    is_linearizable,
)
from lograft.chaos.raft.register_machine import Kind, Value
from lograft.runtime.rng import Rng


def append(item: str, called: int, returned: int, seen: Value | None = None) -> Operation:
    return Operation(1, Kind.APPEND, "key", item, called, returned, Outcome.OK, seen)


def write(item: str, called: int, returned: int) -> Operation:
    return Operation(1, Kind.WRITE, "key", item, called, returned, Outcome.OK, (item,))


def read(seen: Value, called: int, returned: int) -> Operation:
    return Operation(2, Kind.READ, "key", "", called, returned, Outcome.OK, seen)


def unknown(item: str, called: int, kind: Kind = Kind.APPEND) -> Operation:
    return Operation(3, kind, "key", item, called, called + 1, Outcome.UNKNOWN)


def failed(item: str, called: int) -> Operation:
    return Operation(3, Kind.APPEND, "key", item, called, called + 1, Outcome.FAIL)


@pytest.mark.parametrize(
    "history",
    [
        [],
        [append("a", 1, 2, ("a",)), read(("a",), 3, 4)],
        # Overlapping calls may happen in either order.
        [append("a", 1, 4), append("b", 2, 3), read(("b", "a"), 5, 6)],
        [append("a", 1, 4), read((), 2, 3)],
        [append("a", 1, 4), read(("a",), 2, 3)],
        # What is uncertain may have happened, long after its caller gave up, or never.
        [unknown("a", 1), append("b", 3, 4), read(("b",), 5, 6), read(("b", "a"), 7, 8)],
        [unknown("a", 1), append("b", 3, 4, ("b",))],
        [unknown("a", 1), append("b", 3, 4, ("a", "b"))],
        [failed("a", 1), read((), 3, 4)],
        [write("a", 1, 2), write("b", 3, 4), read(("b",), 5, 6)],
        [write("a", 1, 2), unknown("b", 3, Kind.WRITE), read(("a",), 5, 6), read(("b",), 7, 8)],
    ],
)
def test_what_one_copy_could_have_answered_is_linearizable(history: list[Operation]) -> None:
    check_linearizable(history)


@pytest.mark.parametrize(
    ("history", "anomaly"),
    [
        ([read(("a",), 1, 2)], RegisterAnomaly.PHANTOM),
        ([failed("a", 1), read(("a",), 3, 4)], RegisterAnomaly.PHANTOM),
        ([append("a", 1, 2), read(("a", "a"), 3, 4)], RegisterAnomaly.DUPLICATE),
        ([append("a", 1, 2), read((), 3, 4)], RegisterAnomaly.LOST_UPDATE),
        ([append("a", 1, 2), append("b", 3, 4, ("b",))], RegisterAnomaly.LOST_UPDATE),
        ([unknown("a", 1), read(("a",), 3, 4), read((), 5, 6)], RegisterAnomaly.STALE_READ),
        (
            [append("a", 1, 9), append("b", 2, 8), read(("a", "b"), 3, 4), read(("b", "a"), 5, 6)],
            RegisterAnomaly.FORK,
        ),
        ([write("a", 1, 2), write("b", 3, 4), read(("a",), 5, 6)], RegisterAnomaly.NOT_LINEARIZABLE),
        ([append("a", 1, 2), append("b", 3, 4), read(("b", "a"), 5, 6)], RegisterAnomaly.NOT_LINEARIZABLE),
    ],
)
def test_what_no_copy_could_have_answered_is_named(history: list[Operation], anomaly: RegisterAnomaly) -> None:
    with pytest.raises(NotLinearizable) as caught:
        check_linearizable(history)
    assert caught.value.anomaly is anomaly


def test_keys_are_judged_apart() -> None:
    history = OperationHistory()
    for key in ("one", "two"):
        history.end(history.call(1, Kind.APPEND, key, f"{key}-a"), Outcome.OK, (f"{key}-a",))
    history.end(history.call(1, Kind.READ, "one"), Outcome.OK, ("one-a",))
    check_linearizable(history.operations())
    history.end(history.call(1, Kind.READ, "two"), Outcome.OK, ())
    with pytest.raises(NotLinearizable, match="key two"):
        check_linearizable(history.operations())


def _concurrent_history(rng: Rng, count: int) -> list[Operation]:
    """What a single copy really answered, to clients whose calls overlap."""
    value: Value = ()
    operations = []
    for number in range(count):
        called, moment, returned = 10 * number - rng.randint(0, 40), 10 * number, 10 * number + rng.randint(1, 40)
        if rng.random() < 0.3:
            operations.append(Operation(number, Kind.READ, "key", "", called, returned, Outcome.OK, value))
            continue
        value = (*value, str(number)) if rng.random() < 0.9 else (str(number),)
        kind = Kind.APPEND if len(value) > 1 else Kind.WRITE
        is_known = rng.random() < 0.9
        outcome, seen = (Outcome.OK, value) if is_known else (Outcome.UNKNOWN, None)
        operations.append(Operation(number, kind, "key", str(number), called, returned, outcome, seen))
        assert called <= moment < returned
    return operations


def test_histories_of_a_single_copy_pass_and_a_changed_answer_is_noticed() -> None:
    for seed in range(20):
        rng = Rng(seed)
        operations = _concurrent_history(rng, 60)
        assert is_linearizable(operations), f"seed {seed}"
        place = rng.choice([place for place, operation in enumerate(operations) if len(operation.seen or ()) > 1])
        seen = operations[place].seen
        assert seen is not None
        wrong = Operation(  # type: ignore[call-arg]
            *(getattr(operations[place], field) for field in ("client", "kind", "key", "item", "called", "returned")),
            Outcome.OK,
            (seen[1], seen[0], *seen[2:]),
        )
        assert not is_linearizable([*operations[:place], wrong, *operations[place + 1 :]]), f"seed {seed}"
