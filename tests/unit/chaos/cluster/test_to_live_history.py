"""Simulated histories that cannot be are written down, as simulated clients record them: the checkers of live clusters
find each, once it is converted."""

from collections.abc import Callable, Iterable
from typing import Any
from uuid import UUID

import pytest

from lograft.broker.replica.interfaces import Acks
from lograft.chaos.checkers.verdict import judge
from lograft.chaos.cluster.checks.history import (
    ClusterHistory,
    FinalPartition,
    PartitionKey,
    Read,
    ReplicaLog,
    SentRecord,
    Stored,
    Told,
)
from lograft.chaos.cluster.clients.poll_recorder import PollNotes
from lograft.chaos.cluster.to_live_history import live_history
from lograft.chaos.cluster.world.record_marks import mark_for
from lograft.chaos.harness.outcome import Outcome
from lograft.clients.consumer.reading.record_run import Position

KEY: PartitionKey = (UUID(int=1), 0)
A, B, X, LATER = (mark_for("p", number, b"k", is_deletion=False) for number in (0, 1, 9, 10))


class Run:
    """Two records of one producer, read and told of, on two replicas."""

    now_us = 100

    def __init__(self) -> None:
        self.history = ClusterHistory()
        self.final = FinalPartition(2, {})
        for number, value in enumerate((A, B)):
            self.sent(number, value, number, number + 1)
        self.consumer = PollNotes("c", self, first=0)
        self.read((0, A, 2), (1, B, 2))
        self.history.told += [Told(KEY, 1, 1, 10, 20), Told(KEY, 1, 2, 30, 40), Told(KEY, 2, 2, 5, 60)]
        self.stored(Stored(0, 1, A), Stored(1, 2, B))

    def note_replicas(self) -> None: ...

    def sent(self, number: int, value: bytes, offset: int, leader_epoch: int) -> SentRecord:
        send = SentRecord(KEY, "p", number, value, outcome=Outcome.OK, offset=offset, leader_epoch=leader_epoch)
        send.settled_us = 1
        return self.history.sends.setdefault(value, send)

    def read(self, *found: tuple[int, bytes, int], end: int | None = None) -> None:
        reads = [Read(KEY, "c", *each) for each in found]
        self.consumer.note(50, reads, {KEY: Position(end)} if end is not None else {})

    def stored(self, *records: Stored, on: Iterable[int] = (1, 2), start: int = 0, end: int | None = None) -> None:
        if end is None:
            end = records[-1].offset + 1 if records else start
        self.final.logs |= {broker: ReplicaLog(start, end, records) for broker in on}

    def forget_clients(self) -> None:
        self.history.entries.clear()
        self.history.told.clear()

    @property
    def anomalies(self) -> list[str]:
        verdict = judge(live_history(self.history, {KEY: self.final}, self.now_us, {}))
        assert not verdict.unjudged
        return [name.value for name in verdict.anomaly_counts]


class CompactedRun(Run):
    """A key that was written again, one that was deleted, and another; compacted on one replica, not on the other."""

    def __init__(self) -> None:
        self.history = ClusterHistory()
        self.history.compacted_topics[KEY[0]] = None
        self.final = FinalPartition(1, {})
        self.consumer = PollNotes("c", self, first=0)
        self.values = [
            mark_for("p", at, key, is_deletion=at == 3) for at, key in enumerate((b"a", b"a", b"b", b"b", b"c"))
        ]
        for offset, value in enumerate(self.values):
            self.sent(offset, value, offset, 1)
        self.keep(1, 4, on=[1])
        self.keep(0, 1, 2, 3, 4, on=[2])

    def keep(self, *offsets: int, on: Iterable[int] = (1, 2), start: int = 0) -> None:
        self.stored(*(Stored(offset, 1, self.values[offset]) for offset in offsets), on=on, start=start, end=5)

    def read_at(self, *offsets: int) -> None:
        self.read(*((offset, self.values[offset], 1) for offset in offsets), end=5)


Spoil = Callable[[Any], object]


def _lose(run: Run) -> None:
    run.forget_clients()
    run.stored(Stored(0, 1, A))


def _lose_though_the_leader_leads_still(run: Run) -> None:
    _lose(run)
    run.history.sends[B].acks = Acks.LEADER


def _move(run: Run, *, unclean_epoch: int | None = None) -> None:
    run.forget_clients()
    run.history.sends[B].offset = 5
    if unclean_epoch is not None:
        run.history.elected_uncleanly(KEY, unclean_epoch)


def _take_back(run: Run) -> None:
    run.history.sends[B].outcome = Outcome.UNKNOWN
    run.history.told.clear()
    run.stored(Stored(0, 1, A))


def _cut_off(run: Run) -> None:
    run.forget_clients()
    run.history.sends[A].outcome = Outcome.UNKNOWN
    run.stored(Stored(1, 2, B), start=1)


def _refuse(run: Run) -> None:
    run.history.refused[B] = "no"
    del run.history.sends[B]


def _send_elsewhere(run: Run) -> None:
    run.history.sends[A].key = (KEY[0], 1)
    run.history.sends[A].outcome = Outcome.UNKNOWN


def _read_anew(run: Run, *found: tuple[int, bytes, int]) -> None:
    run.consumer.begin_anew()
    run.read(*found)


def _replace_behind_the_consumers_back(run: Run) -> None:
    """It read A and B of the leaders of epochs 1 and 2; that of epoch 3 has X in the place of B."""
    run.history.elected_uncleanly(KEY, 3)
    run.sent(9, X, 1, 3)
    run.sent(10, LATER, 2, 3)
    run.stored(Stored(0, 1, A), Stored(1, 3, X), Stored(2, 3, LATER))
    run.read((2, LATER, 3))


def _tell(*told: int) -> Spoil:
    return lambda run: run.history.told.append(Told(KEY, *told))


BROKEN: list[tuple[Spoil, str]] = [
    (_lose, "lost write"),
    (_lose_though_the_leader_leads_still, "lost write"),
    (_cut_off, "lost write"),
    (_move, "duplicate"),
    (lambda run: _move(run, unclean_epoch=3), "duplicate"),
    (lambda run: run.stored(Stored(0, 1, A), Stored(1, 2, B), Stored(2, 2, A)), "duplicate"),
    (lambda run: setattr(run.history.sends[A], "number", 7), "reordered sends"),
    (lambda run: run.stored(Stored(0, 1, A), Stored(1, 2, B), Stored(2, 2, X)), "phantom"),
    (lambda run: run.read((2, X, 2)), "phantom"),
    (_send_elsewhere, "phantom"),
    (lambda run: setattr(run.history.sends[B], "outcome", Outcome.FAIL), "phantom"),
    (_refuse, "phantom"),
    (_take_back, "read but taken back"),
    (lambda run: _read_anew(run, (0, B, 2)), "inconsistent offsets"),
    (lambda run: _read_anew(run, (1, B, 2)), "skipping poll"),
    (_replace_behind_the_consumers_back, "skipping poll"),
    (lambda run: run.stored(Stored(0, 1, A), Stored(1, 1, B), on=[2]), "replica divergence"),
    (lambda run: run.stored(Stored(0, 1, A), on=[2]), "replica divergence"),
    (lambda run: run.stored(Stored(0, 1, A), Stored(2, 2, B)), "replica divergence"),  # a hole
    (lambda run: run.stored(Stored(0, 3, A), Stored(1, 2, B)), "replica divergence"),  # the epoch falls
    (_tell(1, 1, 50, 70), "watermark regression"),
    (_tell(2, 1, 1, 2), "watermark regression"),  # a later epoch is behind
    (_tell(3, 9, 80, 90), "watermark regression"),  # it is beyond the end
]

COMPACTED_BROKEN: list[tuple[Spoil, str]] = [
    (lambda run: run.keep(0, 4), "lost write"),
    (lambda run: run.keep(0, 4, on=[1]), "replica divergence"),
    (lambda run: run.keep(1, 2, 4), "lost write"),  # what was deleted is back
    (lambda run: run.keep(1, 2, 4, on=[1]), "replica divergence"),
    (lambda run: run.keep(1), "lost write"),
    (lambda run: run.stored(Stored(1, 1, run.values[0]), Stored(4, 1, run.values[4]), on=[1]), "replica divergence"),
    (lambda run: run.stored(Stored(1, 1, run.values[1]), on=[1], end=4), "replica divergence"),
    (lambda run: run.stored(*(Stored(at, 1, run.values[at]) for at in (4, 1)), on=[1], end=5), "replica divergence"),
    (lambda run: run.read_at(0, 4), "skipping poll"),
    (lambda run: run.read_at(1), "skipping poll"),
]


@pytest.mark.parametrize(
    ("kind", "spoil", "anomaly"),
    [*((Run, *row) for row in BROKEN), *((CompactedRun, *row) for row in COMPACTED_BROKEN)],
)
def test_what_cannot_be_is_found(kind: type[Run], spoil: Spoil, anomaly: str) -> None:
    run = kind()
    assert run.anomalies == []
    spoil(run)
    assert anomaly in run.anomalies


# -- what can be


def test_after_an_unclean_election_what_was_said_before_may_be_gone() -> None:
    run = Run()
    run.history.elected_uncleanly(KEY, 2)
    run.stored(Stored(0, 2, B))  # it was acknowledged by the leader that was elected so
    run.history.sends[B].offset = 0
    run.history.entries.clear()
    run.history.told = [Told(KEY, 1, 2, 30, 40), Told(KEY, 2, 1, 50, 60)]
    assert run.anomalies == []


@pytest.mark.parametrize("spoil", [_lose, _take_back, _tell(3, 9, 80, 90)])
def test_and_what_is_said_from_then_on_holds_again(spoil: Spoil) -> None:
    run = Run()
    run.history.elected_uncleanly(KEY, 1)
    spoil(run)
    assert run.anomalies


@pytest.mark.parametrize(("stored_in", "names"), [(2, []), (3, ["duplicate"])])
def test_of_what_only_the_leader_had_an_earlier_attempt_may_be_left(stored_in: int, names: list[str]) -> None:
    run = Run()
    send = run.history.sends[B]
    send.acks, send.offset, send.leader_epoch = Acks.LEADER, 5, 3
    run.final.leader_epoch = 4
    run.stored(Stored(0, 1, A), Stored(1, stored_in, B))
    assert run.anomalies == names


def test_what_only_the_leader_had_may_be_gone_with_it() -> None:
    run = Run()
    _lose_though_the_leader_leads_still(run)
    run.final.leader_epoch = 3
    assert run.anomalies == []


def test_what_retention_may_delete_may_be_gone() -> None:
    run = Run()
    run.history.limited_topics[KEY[0]] = None
    _cut_off(run)
    assert run.anomalies == []


def test_what_superseded_a_record_may_be_deleted_by_retention() -> None:
    run = CompactedRun()
    run.history.limited_topics[KEY[0]] = None
    run.read_at(1, 4)
    run.keep(4, start=4)
    assert run.anomalies == []


@pytest.mark.parametrize(("start", "names"), [(0, ["skipping poll"]), (1, ["skipping poll"]), (2, [])])
def test_retention_excuses_only_what_it_had_deleted_by_then(start: int, names: list[str]) -> None:
    """It has deleted all but the last record in the end."""
    run = CompactedRun()
    run.history.limited_topics[KEY[0]] = None
    run.history.starts_at(KEY, start)
    run.read_at(4)
    run.keep(4, start=4)
    assert run.anomalies == names
