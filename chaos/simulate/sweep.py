"""A sweep over many seeds, on one or more processes: total coverage, and the runs that failed."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TextIO

from lograft.chaos.simulate.case import Case
from lograft.chaos.simulate.coverage import Coverage
from lograft.chaos.simulate.progress import SweepProgress
from lograft.chaos.simulate.run_case import run_case
from lograft.chaos.simulate.run_result import RunResult
from lograft.chaos.simulate.shrink import Shrinking, Shrunk
from lograft.runtime.process.process_pool import run_in_processes
from lograft.runtime.process.stopwatch import Stopwatch


@dataclass(slots=True)
class Sweep:
    """Results of the seeds from `first` on."""

    first: int
    runs: int = 0
    virtual_ms: int = 0
    computing_ms: int = 0
    failed: list[RunResult] = field(default_factory=list)
    shrunk: dict[int, Shrunk] = field(default_factory=dict)  # by seed
    coverage: Coverage = field(default_factory=Coverage)

    def add(self, outcome: RunResult) -> None:
        self.runs += 1
        self.virtual_ms += outcome.virtual_ms
        self.computing_ms += outcome.computing_ms
        self.coverage.add(outcome)
        if outcome.failure is not None:
            self.failed.append(outcome)

    def run(
        self, seeds: Iterable[int], count: int, jobs: int, out: TextIO, on_outcome: Callable[[RunResult], object]
    ) -> None:
        """Run `count` seeds. Pass each outcome to `on_outcome`, and write progress and failures to `out`."""
        progress = SweepProgress(out, count)
        try:
            for done, outcome in enumerate(run_in_processes(run_case, map(Case, seeds), jobs), start=1):
                self.add(outcome)
                if outcome.failure is not None:
                    progress.clear()
                    out.write(f"{failure_line(outcome)}\n")
                    out.flush()
                on_outcome(outcome)
                progress.tick(done, len(self.failed))
        finally:
            progress.clear()

    def shrink(self, at_most_ms: int, say: Callable[[str], object]) -> None:
        """Shrink the first failure of each kind, for at most this time each. A kind usually has a single cause."""
        seen: dict[str, None] = {}
        for outcome in self.failed:
            assert outcome.failure is not None
            if outcome.failure.kind not in seen:
                seen[outcome.failure.kind] = None
                say(f"making seed {outcome.seed} smaller, for {at_most_ms / 1000:.0f} s at most")
                self.shrunk[outcome.seed] = shrink(Case(outcome.seed), outcome, at_most_ms)

    def conclusion(self) -> list[str]:
        lines = self.coverage.lines()
        for outcome in self.failed:
            lines += ["", *failure_lines(outcome, self.shrunk.get(outcome.seed))]
        virtual_seconds, computing_seconds = self.virtual_ms / 1000, max(self.computing_ms / 1000, 0.001)
        verdict = "all held" if not self.failed else f"{len(self.failed):,} FAILED"
        lines += [
            "",
            f"{self.runs:,} seeds from {self.first} on: {verdict}",
            f"{virtual_seconds:,.0f} simulated seconds in {computing_seconds:,.0f} of computing, "
            f"{virtual_seconds / computing_seconds:.0f} a second",
        ]
        return lines

    def document(self) -> dict[str, Any]:
        """Return the results as a JSON document."""
        return {
            "first": self.first,
            "seeds": self.runs,
            "failed": [_failed(outcome, self.shrunk.get(outcome.seed)) for outcome in self.failed],
            "simulatedSeconds": self.virtual_ms / 1000,
            "computingSeconds": self.computing_ms / 1000,
            "met": {about: dict(counts) for about, counts in self.coverage.counts.items()},
            "neverMet": self.coverage.never_met(),
        }


def shrink(case: Case, outcome: RunResult, at_most_ms: int) -> Shrunk:
    watch = Stopwatch()
    return Shrinking(case, outcome, run_case, lambda: watch.seconds * 1000 < at_most_ms).shrink()


def failure_line(outcome: RunResult) -> str:
    assert outcome.failure is not None
    return f"seed {outcome.seed} FAILED: {outcome.failure.kind}: {outcome.failure.message[:200]}"


def failure_lines(outcome: RunResult, shrunk: Shrunk | None) -> list[str]:
    failure = outcome.failure
    assert failure is not None
    lines = [failure_line(outcome)]
    lines += [f"  {name}: {count}" for name, count in failure.anomalies.items()]
    lines += [f"  {line}" for line in failure.evidence]
    lines.append(f"  again: {Case(outcome.seed).command} --trace")
    if shrunk is not None:
        lines += shrunk_lines(outcome, shrunk)
    return lines


def shrunk_lines(outcome: RunResult, shrunk: Shrunk) -> list[str]:
    small, failure = shrunk.outcome, shrunk.outcome.failure
    assert failure is not None
    how = "nothing more can be left out" if shrunk.is_smallest else "there was no time for more"
    return [
        f"  smaller: {len(small.faults)} of {len(outcome.faults)} faults, {small.duration_ms / 1000:.1f} of "
        f"{outcome.duration_ms / 1000:.1f} s, {len(small.clients)} of {len(outcome.clients)} clients "
        f"({shrunk.runs} runs; {how})",
        f"    {failure.kind}: {failure.message[:200]}",
        f"    again: {shrunk.case.command} --trace",
    ]


def _failed(outcome: RunResult, shrunk: Shrunk | None) -> dict[str, Any]:
    failure = outcome.failure
    assert failure is not None
    found: dict[str, Any] = {
        "seed": outcome.seed,
        "kind": failure.kind,
        "message": failure.message,
        "anomalies": dict(failure.anomalies),
        "evidence": list(failure.evidence),
        "replay": Case(outcome.seed).command,
    }
    if shrunk is not None:
        found["smaller"] = {
            "replay": shrunk.case.command,
            "faults": list(shrunk.outcome.faults),
            "durationMs": shrunk.outcome.duration_ms,
            "clients": list(shrunk.outcome.clients),
            "isSmallest": shrunk.is_smallest,
        }
    return found
