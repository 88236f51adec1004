"""Checks that an epoch has one leader, and that leaders' high watermarks never fall. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lograft.chaos.checkers.anomalies import Anomaly, AnomalyName, anomaly
from lograft.chaos.history.entries import AskEnds, EndsTold, LeaderSeen, Moment
from lograft.chaos.history.history_index import HistoryIndex, only
from lograft.clients.types import TopicPartition


def split_leadership(index: HistoryIndex) -> Iterator[Anomaly]:
    """Two brokers lead one partition in one epoch."""
    seen: dict[tuple[TopicPartition, int], dict[int, LeaderSeen]] = {}
    for one in index.history.of(LeaderSeen):
        seen.setdefault((one.partition, one.leader_epoch), {}).setdefault(one.broker, one)
    for (partition, leader_epoch), by_broker in seen.items():
        if len(by_broker) > 1:
            brokers = " and ".join(str(broker) for broker in sorted(by_broker))
            summary = f"brokers {brokers} lead {partition} in epoch {leader_epoch}"
            yield anomaly(AnomalyName.SPLIT_LEADERSHIP, summary, *by_broker.values())


@dataclass(frozen=True, slots=True)
class _ToldEnd:
    ask: AskEnds
    at: Moment
    partition: TopicPartition
    offset: int
    leader_epoch: int | None


def watermark_regressions(index: HistoryIndex) -> Iterator[Anomaly]:
    """Yield each high watermark that falls within one generation, or exceeds the end of a final log.

    One client must never see it fall. Across clients, it must not fall if the second request of an epoch began after
    the first answer, or if the answer of a later epoch is lower than any answer of an earlier one, at whatever time: a
    leader that does not know yet that it was replaced may still answer with an old value.
    """
    by_generation: dict[tuple[TopicPartition, int], list[_ToldEnd]] = {}
    for ask in index.history.of(AskEnds):
        if isinstance(ask.completion, EndsTold):
            at = ask.completion.at
            for end in ask.completion.ends:
                generation = index.generations.of(end.partition, end.leader_epoch, ask.invoked, at)
                if generation is not None:
                    told = _ToldEnd(ask, at, end.partition, end.offset, end.leader_epoch)
                    by_generation.setdefault((end.partition, generation), []).append(told)
    for (partition, generation), of_generation in by_generation.items():
        yield from _regressions(of_generation)
        if index.generations.is_last(partition, generation):
            yield from _beyond_the_end(index, partition, of_generation)


def _regressions(told: list[_ToldEnd]) -> Iterator[Anomaly]:
    clients: dict[str, list[_ToldEnd]] = {}
    epochs: dict[int, list[_ToldEnd]] = {}
    for one in told:
        clients.setdefault(one.ask.client, []).append(one)
        if one.leader_epoch is not None:
            epochs.setdefault(one.leader_epoch, []).append(one)
    for of_client in clients.values():
        for before, after in _later_but_lower(of_client):
            yield _gone_back(before, after)
    highest: _ToldEnd | None = None
    for epoch in sorted(epochs):
        pairs = list(_later_but_lower(epochs[epoch]))
        if highest is not None:
            pairs += [(highest, one) for one in epochs[epoch] if one.offset < highest.offset]
        for before, after in pairs:
            if before.ask.client != after.ask.client or before.at >= after.ask.invoked:
                yield _gone_back(before, after)
        top = max(epochs[epoch], key=lambda one: one.offset)
        highest = top if highest is None or top.offset > highest.offset else highest


def _later_but_lower(told: Iterable[_ToldEnd]) -> Iterator[tuple[_ToldEnd, _ToldEnd]]:
    """Yield pairs whose second request began after the first answer, with a lower offset."""
    by_answer = sorted(told, key=lambda one: one.at)
    highest: _ToldEnd | None = None
    answered = 0
    for one in sorted(by_answer, key=lambda each: each.ask.invoked):
        while by_answer[answered].at < one.ask.invoked:
            before = by_answer[answered]
            highest = before if highest is None or before.offset > highest.offset else highest
            answered += 1
        if highest is not None and one.offset < highest.offset:
            yield highest, one


def _gone_back(before: _ToldEnd, after: _ToldEnd) -> Anomaly:
    summary = f"the watermark of {before.partition} was told to be {before.offset}, and then {after.offset}"
    return anomaly(AnomalyName.WATERMARK_REGRESSION, summary, before.ask, after.ask)


def _beyond_the_end(index: HistoryIndex, partition: TopicPartition, told: list[_ToldEnd]) -> Iterator[Anomaly]:
    for replica in index.replicas.get(partition, ()):
        beyond = [one for one in told if one.offset > replica.end_offset]
        if beyond:
            top = max(beyond, key=lambda one: one.offset)
            summary = (
                f"the watermark of {partition} was told to be {top.offset}, "
                f"but on broker {replica.broker} it ends at {replica.end_offset}"
            )
            yield anomaly(AnomalyName.WATERMARK_REGRESSION, summary, top.ask, only(replica))
