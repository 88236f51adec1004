"""One simulated run, from start to its outcome."""

import gc
import traceback
from collections.abc import Callable

from lograft.chaos.checkers.verdict import judge
from lograft.chaos.cluster.checks.verdict import evidence_lines
from lograft.chaos.cluster.simulation import SimulatedCluster, simulate_cluster
from lograft.chaos.cluster.to_live_history import judged
from lograft.chaos.harness.failures import InvariantBroken
from lograft.chaos.history.history import History
from lograft.chaos.simulate.case import Case
from lograft.chaos.simulate.run_result import Failure, RunResult
from lograft.runtime.process.stopwatch import Stopwatch

_MOST_CHARACTERS = 600


def run_case(
    case: Case,
    on_story: Callable[[list[str]], object] | None = None,
    on_history: Callable[[History], object] | None = None,
) -> RunResult:
    """Run `case`. Any exception becomes its outcome. `on_story` and `on_history` receive the events and the history."""
    made: list[SimulatedCluster] = []
    watch = Stopwatch()
    error: Exception | None = None
    try:
        simulate_cluster(case.seed, None, case.selection, on_made=made.append)
    except Exception as raised:
        error = raised
    computing_ms = round(watch.cpu_seconds * 1000)
    cluster = made[0]
    history = cluster.live_history()
    if on_story is not None:
        on_story(cluster.schedule.lines())
    if on_history is not None:
        on_history(history)
    outcome = RunResult(
        seed=case.seed,
        digest=cluster.schedule.digest()[:16],
        virtual_ms=cluster.now_us // 1000,
        computing_ms=computing_ms,
        duration_ms=cluster.weather.duration_ms,
        faults=cluster.nemesis.numbers_met,
        clients=tuple(one.name for one in cluster.clients if case.selection.has_client(one.name)),
        figures=_figures(cluster, history),
        failure=_failure(error, history) if error is not None else None,
    )
    del made, cluster, history, error
    gc.collect()  # a cluster is full of reference cycles and holds all its disks: many of them would fill memory
    return outcome


def _figures(cluster: SimulatedCluster, history: History) -> dict[str, dict[str, int]]:
    wishes: dict[str, int] = {}
    for operator in cluster.operators:
        for wish, count in operator.counts.items():
            name, _, is_granted = wish.partition(" ")
            if is_granted == "ok":
                wishes[name] = wishes.get(name, 0) + count
    return {
        "faults": dict(cluster.nemesis.met),
        "wishes": wishes,
        "met": {**cluster.sights.counts, **cluster.group.counts, "logs trimmed": len(cluster.history.starts)},
        "events": dict(cluster.schedule.counts),
        "crashes": dict(cluster.sights.crashes),
        "judged": dict(judged(history)),
    }


def _failure(error: Exception, history: History) -> Failure:
    """Describe the failure. The checkers of live clusters usually find its anomaly in the incomplete history."""
    verdict = judge(history)
    evidence = verdict.anomalies[0] if verdict.anomalies else None
    return Failure(
        kind=_kind(error),
        message=str(error)[:_MOST_CHARACTERS],
        anomalies={name.value: count for name, count in verdict.anomaly_counts.items()},
        evidence=(evidence.summary, *evidence_lines(evidence)) if evidence is not None else _trace(error),
    )


def _kind(error: Exception) -> str:
    if isinstance(error, InvariantBroken):
        return error.rule
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "lograft" in frame.filename]
    where = f" in {frames[-1].name}" if frames and not type(error).__module__.startswith("lograft.chaos") else ""
    return f"{type(error).__name__}{where}"


def _trace(error: Exception) -> tuple[str, ...]:
    if isinstance(error, InvariantBroken):
        return tuple(getattr(error, "__notes__", ()))
    return tuple("".join(traceback.format_exception(error)).splitlines()[-12:])
