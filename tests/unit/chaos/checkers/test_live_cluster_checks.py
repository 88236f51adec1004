"""What leaders, replicas and controllers say: watermarks, leadership, final logs, configuration."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.live_stories import Story, all_names, found_in

from lograft.chaos.checkers.anomalies import AnomalyName
from lograft.chaos.checkers.registers import metadata_linearizability
from lograft.chaos.history.entries import ConfigRead, ConfigTold, ConfigWrite, Done, Failed, Moment, Unknown, outcome_of
from lograft.chaos.history.history import History
from lograft.chaos.history.history_index import HistoryIndex
from lograft.chaos.raft.linearizability import Operation, is_linearizable
from lograft.chaos.raft.register_machine import Kind

# -- watermarks


def test_a_watermark_that_goes_back_for_one_client() -> None:
    story = Story()
    first, second = story.ends(5), story.ends(4)
    (found,) = found_in(story, AnomalyName.WATERMARK_REGRESSION)
    assert found.evidence == (first, second)
    assert all_names(story) == [AnomalyName.WATERMARK_REGRESSION]


@pytest.mark.parametrize(
    ("epochs", "count"),
    [
        ((1, 1), 1),
        ((1, 2), 1),
        ((2, 1), 0),  # by a leader that does not know yet that it leads no more
        ((None, None), 0),  # as it may have been
    ],
)
def test_a_watermark_that_is_lower_for_another_client(epochs: tuple[int | None, int | None], count: int) -> None:
    story = Story()
    story.ends(5, client="bob", leader_epoch=epochs[0])
    story.ends(4, client="eve", leader_epoch=epochs[1])
    assert len(found_in(story, AnomalyName.WATERMARK_REGRESSION)) == count


def test_an_earlier_epoch_that_told_more_than_a_later_one_is_found_though_it_answered_later() -> None:
    story = Story()
    low = story.ends(4, client="eve", leader_epoch=2)
    high = story.ends(5, client="bob", leader_epoch=1)
    (found,) = found_in(story, AnomalyName.WATERMARK_REGRESSION)
    assert found.evidence == (low, high)


def test_a_watermark_that_rises_is_fine_and_may_fall_with_an_unclean_election() -> None:
    story = Story()
    story.ends(5)
    story.ends(5)
    story.ends(6)
    story.unclean(3)
    story.ends(2)
    assert all_names(story) == []


def test_a_log_that_ends_before_what_was_told_to_be_committed() -> None:
    story = Story()
    story.send("a", 0)
    told = story.ends(2)
    replica = story.replica(1, ["a"])
    (found,) = found_in(story, AnomalyName.WATERMARK_REGRESSION)
    assert found.evidence[0] is told
    assert "on broker 1 it ends at 1" in found.summary
    assert replica.end_offset == 1


# -- leaders


def test_two_leaders_in_one_epoch() -> None:
    story = Story()
    first, _, other = story.leader(4, 1), story.leader(4, 1), story.leader(4, 2)
    (found,) = found_in(story, AnomalyName.SPLIT_LEADERSHIP)
    assert found.evidence == (first, other)
    assert found.summary == "brokers 1 and 2 lead orders-0 in epoch 4"


def test_one_leader_an_epoch_is_fine() -> None:
    story = Story()
    story.leader(4, 1)
    story.leader(5, 2)
    story.leader(4, 1)
    assert all_names(story) == []


# -- replicas


def sent(*values: str) -> Story:
    story = Story()
    for value in values:
        story.send(value, key=value[0])
    return story


def test_replicas_that_have_different_records_at_one_offset() -> None:
    story = sent("a", "b", "c")
    story.replica(1, ["a", "b"])
    story.replica(2, ["a", "c"])
    (found,) = found_in(story, AnomalyName.REPLICA_DIVERGENCE)
    assert "brokers 1 and 2: at 1" in found.summary
    assert [len(one.records) for one in found.evidence if hasattr(one, "records")] == [1, 1]


def test_replicas_that_have_one_record_of_different_epochs() -> None:
    story = sent("a")
    story.replica(1, ["a"], epochs={0: 1})
    story.replica(2, ["a"], epochs={0: 2})
    assert all_names(story) == [AnomalyName.REPLICA_DIVERGENCE]


def test_a_replica_that_is_shorter() -> None:
    story = sent("a", "b")
    story.replica(1, ["a", "b"])
    story.replica(2, ["a"])
    length, record = found_in(story, AnomalyName.REPLICA_DIVERGENCE)
    assert length.summary.endswith("they end at 2 and 1")
    assert "at 1 there is" in record.summary


def test_a_replica_that_starts_later_or_is_not_in_sync_does_not_diverge() -> None:
    story = sent("a", "b")
    story.declare(limited=True)
    story.replica(1, ["a", "b"])
    story.replica(2, ["b"], start=1)
    story.replica(3, ["b"], in_sync=False)
    assert all_names(story) == []


@pytest.mark.parametrize(
    ("values", "end", "epochs"),
    [({0: "a", 2: "b"}, 3, {}), ({0: "a"}, 2, {}), ({0: "a", 1: "b"}, 1, {}), ({0: "a", 1: "b"}, 2, {0: 5})],
)
def test_a_log_that_has_holes_or_ends_elsewhere_or_whose_epochs_fall(
    values: dict[int, str], end: int, epochs: dict[int, int]
) -> None:
    story = sent("a", "b")
    story.replica(1, values, end=end, epochs=epochs)
    assert all_names(story) == [AnomalyName.REPLICA_DIVERGENCE]


def test_compacted_replicas_need_not_have_compacted_the_same() -> None:
    story = sent("k1", "k2", "j1")
    story.declare(compacted=True)
    story.replica(1, ["k1", "k2", "j1"])
    story.replica(2, {1: "k2", 2: "j1"})
    assert all_names(story) == []


def test_compacted_replicas_agree_on_the_latest_of_each_key() -> None:
    story = sent("k1", "k2", "j1")
    story.declare(compacted=True)
    story.replica(1, {1: "k2", 2: "j1"})
    story.replica(2, {0: "k1", 2: "j1"})
    (found,) = found_in(story, AnomalyName.REPLICA_DIVERGENCE)
    assert "the latest of k is" in found.summary


def test_compacted_replicas_agree_at_offsets_that_both_have() -> None:
    story = sent("k1", "k2", "k3")
    story.declare(compacted=True)
    story.replica(1, ["k1", "k3"])
    story.replica(2, ["k2", "k3"])
    (found,) = found_in(story, AnomalyName.REPLICA_DIVERGENCE)
    assert "at 0 there is" in found.summary


# -- configuration


def test_a_read_that_does_not_see_what_was_written() -> None:
    story = Story()
    story.read(None)
    first, second = story.write("1"), story.write("2")
    stale = story.read("1")
    story.read("3")
    story.write("3")
    (early, clash) = found_in(story, AnomalyName.METADATA_NOT_LINEARIZABLE)
    assert early.summary == "retention.ms of orders was read as 3 before that was written"
    assert clash.summary == "retention.ms of orders would have been 1 and 2 at one time"
    assert clash.evidence == (first, second, stale)


def test_reads_that_see_what_was_written_are_fine() -> None:
    story = Story()
    story.read(None)
    story.write("1")
    story.read("1")
    story.write("2")
    story.read("2")
    story.read("2")
    assert all_names(story) == []


def test_a_setting_that_was_seen_is_not_unset_again() -> None:
    story = Story()
    story.write("1", known=False)
    story.read("1")
    story.read(None)
    (found,) = found_in(story, AnomalyName.METADATA_NOT_LINEARIZABLE)
    assert found.summary.endswith("would have been None and 1 at one time")


def test_a_write_of_which_nobody_knows_may_be_seen_at_any_time_or_never_but_stays_seen() -> None:
    story = Story()
    story.write("1", known=False)
    story.write("2")
    story.write("3", known=False)
    story.read("2")
    story.read("1")
    assert all_names(story) == []
    story.read("2")
    assert all_names(story) == [AnomalyName.METADATA_NOT_LINEARIZABLE]


def test_a_read_that_sees_what_nobody_wrote() -> None:
    story = Story()
    read = story.read("9")
    (found,) = found_in(story, AnomalyName.METADATA_NOT_LINEARIZABLE)
    assert found.evidence == (read,)
    assert "9, which nobody wrote" in found.summary


def test_values_that_are_written_again_are_searched() -> None:
    story = Story()
    story.write("1")
    story.write("2")
    story.write("1")
    story.read("1")
    assert all_names(story) == []
    story.read("2")
    (found,) = found_in(story, AnomalyName.METADATA_NOT_LINEARIZABLE)
    assert found.evidence == tuple(story.entries)


@st.composite
def registers(draw: st.DrawFn) -> list[ConfigWrite | ConfigRead]:
    """Calls that overlap, or not; every value is written once, at most."""
    calls: list[ConfigWrite | ConfigRead] = []
    for number in range(draw(st.integers(1, 6))):
        begin = draw(st.integers(0, 12))
        end = Moment(begin + draw(st.integers(0, 6)))
        name = ("p", number, Moment(begin), "orders", "retention.ms")
        if draw(st.booleans()):
            done = draw(st.sampled_from([Done(end), Done(end), Unknown(), Failed(end, "X")]))
            calls.append(ConfigWrite(*name, str(number), done))  # type: ignore[arg-type]
        else:
            value = draw(st.none() | st.integers(0, 6).map(str))
            calls.append(ConfigRead(*name, ConfigTold(end, value)))
    return calls


@given(registers())
@settings(max_examples=400)
def test_what_is_told_without_a_search_is_what_a_search_finds(calls: list[ConfigWrite | ConfigRead]) -> None:
    operations = [
        Operation(
            0,
            Kind.WRITE if isinstance(call, ConfigWrite) else Kind.READ,
            call.name,
            call.value if isinstance(call, ConfigWrite) else "",
            call.invoked.monotonic_us,
            None if call.completion.at is None else call.completion.at.monotonic_us,
            outcome_of(call),
            _seen(call),
        )
        for call in calls
    ]
    found = list(metadata_linearizability(HistoryIndex(History(calls))))
    assert bool(found) == (not is_linearizable(operations))


def _seen(call: ConfigWrite | ConfigRead) -> tuple[str, ...] | None:
    if not isinstance(call.completion, ConfigTold):
        return None
    return () if call.completion.value is None else (call.completion.value,)
