"""A verdict: all that is wrong, what could not be judged, and how it went."""

import pytest
from support.live_stories import Story

from lograft.chaos.checkers.anomalies import MAX_OF_A_KIND, AnomalyName
from lograft.chaos.checkers.availability import (
    FaultSpan,
    Pause,
    Second,
    availability,
    fault_spans,
    percentile,
    timeline,
)
from lograft.chaos.checkers.verdict import judge
from lograft.chaos.harness.outcome import Outcome
from lograft.chaos.history.entries import Acknowledged, Done, Failed, Fault, Moment, Note, Send, Unknown
from lograft.chaos.history.history import History


def at_ms(milliseconds: int) -> Moment:
    return Moment(milliseconds * 1000)


def send(number: int, begin_ms: int, completion: Acknowledged | Failed | Unknown) -> Send:
    return Send("p", number, at_ms(begin_ms), "orders", f"v{number}", "ann", number, completion=completion)


def stored(number: int, begin_ms: int, end_ms: int) -> Send:
    return send(number, begin_ms, Acknowledged(at_ms(end_ms), 0, number))


# -- anomalies


def test_all_anomalies_are_collected_and_the_first_of_each_kind_are_kept() -> None:
    story = Story()
    for offset in range(50):
        story.send(f"r{offset}", offset)
    story.leader(1, 1)
    story.leader(1, 2)
    story.replicas([])
    verdict = judge(story.history)
    assert verdict.anomaly_counts == {AnomalyName.LOST_WRITE: 50, AnomalyName.SPLIT_LEADERSHIP: 1}
    names = [one.name for one in verdict.anomalies]
    assert names == [AnomalyName.LOST_WRITE] * MAX_OF_A_KIND + [AnomalyName.SPLIT_LEADERSHIP]
    assert verdict.anomalies[0].evidence[0] is story.entries[0]
    assert not verdict.is_sound


def test_what_nobody_looked_at_in_the_end_is_not_called_sound() -> None:
    story = Story()
    story.send("a", 0)
    verdict = judge(story.history)
    assert verdict.anomalies == ()
    assert verdict.unjudged == ("orders-0: its final logs were not taken",)
    assert not verdict.is_sound
    story.replicas(["a"])
    assert judge(story.history).is_sound


def test_an_unclean_election_of_which_nobody_knows_leaves_the_partition_unjudged() -> None:
    story = Story()
    story.send("a", 0, leader_epoch=1)
    story.unclean(None)
    story.replicas([])
    verdict = judge(story.history)
    assert verdict.anomalies == ()
    assert verdict.unjudged == ("orders-0: an unclean election may have been held",)


def test_two_sends_of_one_value_cannot_be_judged() -> None:
    story = Story()
    story.send("a", 0)
    story.send("a", 1)
    with pytest.raises(ValueError, match="two sends have the value 'a'"):
        judge(story.history)


def test_an_empty_history_is_sound() -> None:
    verdict = judge(History([]))
    assert verdict.is_sound
    assert verdict.timeline == ()
    assert verdict.availability.acknowledged_share == 1.0


# -- figures


def test_availability_is_the_share_of_sends_that_were_acknowledged_and_the_longest_pause() -> None:
    history = History(
        [
            stored(0, 0, 10),
            stored(1, 10, 20),
            send(2, 20, Failed(at_ms(500), "NOT_ENOUGH_REPLICAS")),
            stored(3, 30, 900),
            send(4, 900, Unknown()),
        ]
    )
    found = availability(history)
    assert (found.sends, found.acknowledged, found.acknowledged_share) == (5, 3, 0.6)
    assert found.longest_pause == Pause(at_ms(20), at_ms(900))
    assert found.longest_pause.length_ms == 880


def test_a_pause_may_last_to_the_end() -> None:
    history = History([stored(0, 0, 10), send(1, 20, Unknown(at_ms(5000), "TIMED_OUT"))])
    assert availability(history).longest_pause == Pause(at_ms(10), at_ms(5000))


def test_the_timeline_has_every_second() -> None:
    history = History(
        [
            Note(at_ms(0), "begin"),
            stored(0, 100, 110),
            stored(1, 100, 140),
            send(2, 200, Failed(at_ms(300), "X")),
            send(3, 2100, Unknown()),
            stored(4, 1900, 2200),
        ]
    )
    assert timeline(history) == (
        Second(0, 2, 1, 0, 10.0, 40.0, 40.0, 40.0),
        Second(1, 0, 0, 0, None, None, None, None),
        Second(2, 1, 0, 1, 300.0, 300.0, 300.0, 300.0),
    )


@pytest.mark.parametrize(("percent", "expected"), [(0, 1.0), (50, 2.0), (75, 3.0), (76, 4.0), (100, 4.0)])
def test_percentiles(percent: int, expected: float) -> None:
    assert percentile([1.0, 2.0, 3.0, 4.0], percent) == expected


def test_faults_are_on_the_timeline() -> None:
    kill = Fault("nemesis", 1, at_ms(1500), "kill", "broker 1", Done(at_ms(3000)))
    cut = Fault("nemesis", 2, at_ms(2000), "cut", "broker 2")
    failed = Fault("nemesis", 3, at_ms(2500), "cut", "broker 3", Failed(at_ms(2600), "NO_SUCH_BROKER"))
    history = History([Note(at_ms(500), "begin"), kill, cut, failed])
    assert fault_spans(history) == (FaultSpan("kill", "broker 1", 1.0, 2.5), FaultSpan("cut", "broker 2", 1.5, None))


def test_operations_are_counted() -> None:
    story = Story()
    story.send("a", 0)
    story.send("b")
    assert judge(story.history).operation_counts["Send"] == {Outcome.OK: 1, Outcome.FAIL: 0, Outcome.UNKNOWN: 1}
