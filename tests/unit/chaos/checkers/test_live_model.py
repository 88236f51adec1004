"""Good histories, at random, pass every checker; and whatever is spoilt in one is found by the checker it is for."""

import io
from random import Random

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from support.live_model import good_history
from support.live_mutations import MUTATIONS, Mutation, NothingToSpoil

from lograft.chaos.checkers.anomalies import AnomalyName
from lograft.chaos.checkers.verdict import CHECKERS, judge
from lograft.chaos.history.history import read_history, write_history

SEEDS = st.integers(0, 2**32)


@given(SEEDS, st.booleans())
@settings(max_examples=60)
def test_a_cluster_that_keeps_its_promises_passes(seed: int, has_unclean_elections: bool) -> None:
    verdict = judge(good_history(seed, has_unclean_elections=has_unclean_elections))
    assert verdict.is_sound, [one.summary for one in verdict.anomalies]


@given(SEEDS)
@settings(max_examples=10)
def test_a_verdict_on_what_was_written_is_the_verdict_on_what_happened(seed: int) -> None:
    history, sink = good_history(seed), io.StringIO()
    write_history(history, sink)
    assert judge(read_history(io.StringIO(sink.getvalue()))) == judge(history)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=str)
@given(seed=SEEDS)
@example(seed=250423721)  # a group's first record was kept from it
@settings(max_examples=15)
def test_what_is_spoilt_is_found(mutation: Mutation, seed: int) -> None:
    try:
        spoilt = mutation.spoil(good_history(seed), Random(seed))
    except NothingToSpoil:
        assume(False)
        return
    verdict = judge(spoilt)
    for name in mutation.found_by:
        assert name in verdict.anomaly_counts, (name, [one.summary for one in verdict.anomalies])
    assert all(one.evidence for one in verdict.anomalies)


def test_every_anomaly_has_a_checker_and_a_mutation_that_it_finds() -> None:
    assert list(CHECKERS) == list(AnomalyName)
    assert {name for mutation in MUTATIONS for name in mutation.found_by} == set(AnomalyName)
