"""Availability of the cluster under faults: figures only, no promises. Pure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil

from lograft.chaos.harness.outcome import Outcome
from lograft.chaos.history.entries import Acknowledged, Fault, Moment, Send, UncleanElection, began, ended, outcome_of
from lograft.chaos.history.history import History

_SECOND_US = 1_000_000


@dataclass(frozen=True, slots=True)
class Pause:
    """No send was acknowledged between two moments."""

    begin: Moment
    end: Moment

    @property
    def length_ms(self) -> float:
        return (self.end.monotonic_us - self.begin.monotonic_us) / 1000


@dataclass(frozen=True, slots=True)
class Availability:
    """`longest_pause`: the longest time without an acknowledgement, between the first send and the end of the last one;
    None without sends. `available_share`: the share of the seconds in between in which a send was acknowledged."""

    sends: int
    acknowledged: int
    longest_pause: Pause | None
    available_share: float = 1.0

    @property
    def acknowledged_share(self) -> float:
        return self.acknowledged / self.sends if self.sends else 1.0


@dataclass(frozen=True, slots=True)
class Second:
    """Sends that ended in the second after `begin_s`, counted from the beginning of the history. The latencies cover
    the acknowledged sends; None without any."""

    begin_s: int
    acknowledged: int
    failed: int
    unknown: int
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    max_ms: float | None


@dataclass(frozen=True, slots=True)
class FaultSpan:
    """One fault for the timeline, in seconds from the beginning. `end_s` None: the fault was never healed."""

    fault: str
    target: str
    begin_s: float
    end_s: float | None


def availability(history: History) -> Availability:
    sends = history.of(Send)
    acknowledged = sorted(one.completion.at for one in sends if isinstance(one.completion, Acknowledged))
    if not sends:
        return Availability(0, 0, None)
    moments = [min(one.invoked for one in sends), *acknowledged, max(_last_known(one) for one in sends)]
    longest = max((Pause(*pair) for pair in pairwise(moments)), key=lambda pause: pause.length_ms)
    first, last = moments[0].monotonic_us // _SECOND_US, moments[-1].monotonic_us // _SECOND_US
    seconds = {moment.monotonic_us // _SECOND_US for moment in acknowledged}
    return Availability(len(sends), len(acknowledged), longest, len(seconds) / (last - first + 1))


def _last_known(send: Send) -> Moment:
    at = send.completion.at
    return send.invoked if at is None else at


def _begin_us(history: History) -> int:
    return began(history.entries[0]).monotonic_us if history.entries else 0


def timeline(history: History) -> tuple[Second, ...]:
    """Return every second from the first entry to the end of the last send, including seconds without sends."""
    sends = history.of(Send)
    if not sends:
        return ()
    begin_us = _begin_us(history)
    counts: Counter[tuple[int, Outcome]] = Counter()
    latencies: dict[int, list[float]] = {}
    for send in sends:
        ended_us = _last_known(send).monotonic_us
        second = (ended_us - begin_us) // _SECOND_US
        counts[second, outcome_of(send)] += 1
        if outcome_of(send) is Outcome.OK:
            latencies.setdefault(second, []).append((ended_us - send.invoked.monotonic_us) / 1000)
    last = max(second for second, _ in counts)
    return tuple(_second(second, counts, sorted(latencies.get(second, ()))) for second in range(last + 1))


def _second(second: int, counts: Counter[tuple[int, Outcome]], latencies_ms: Sequence[float]) -> Second:
    return Second(
        second,
        counts[second, Outcome.OK],
        counts[second, Outcome.FAIL],
        counts[second, Outcome.UNKNOWN],
        percentile(latencies_ms, 50),
        percentile(latencies_ms, 95),
        percentile(latencies_ms, 99),
        percentile(latencies_ms, 100),
    )


def percentile(ordered: Sequence[float], percent: int) -> float | None:
    """Return the smallest value that `percent` of the values do not exceed; None if there are no values."""
    return ordered[max(ceil(len(ordered) * percent / 100) - 1, 0)] if ordered else None


def fault_spans(history: History) -> tuple[FaultSpan, ...]:
    begin_us = _begin_us(history)
    spans = []
    for entry in history.entries:
        if isinstance(entry, Fault | UncleanElection) and outcome_of(entry) is not Outcome.FAIL:
            name = entry.fault if isinstance(entry, Fault) else "unclean election"
            target = entry.target if isinstance(entry, Fault) else str(entry.partition)
            end = ended(entry)
            end_s = None if end is None else (end.monotonic_us - begin_us) / _SECOND_US
            spans.append(FaultSpan(name, target, (entry.invoked.monotonic_us - begin_us) / _SECOND_US, end_s))
    return tuple(spans)
