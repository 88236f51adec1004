"""What the checkers of live clusters say of a simulated run, as an error if anything is wrong."""

from lograft.chaos.checkers.anomalies import Anomaly
from lograft.chaos.checkers.verdict import Verdict
from lograft.chaos.harness.failures import InvariantBroken


class AnomaliesFound(InvariantBroken):
    """`rule`: the name of the first. All that was found, with its evidence, is in `verdict`."""

    def __init__(self, verdict: Verdict) -> None:
        first = verdict.anomalies[0]
        super().__init__(first.name.value, first.summary)
        self.verdict = verdict
        for name, count in verdict.anomaly_counts.items():
            self.add_note(f"{name.value}: {count}")
        for line in evidence_lines(first):
            self.add_note(line)


class NotJudged(InvariantBroken):
    """Something could not be: of a simulated run everything can."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__("all can be judged", "; ".join(verdict.unjudged))


def expect_sound(verdict: Verdict) -> None:
    if verdict.anomalies:
        raise AnomaliesFound(verdict)
    if verdict.unjudged:
        raise NotJudged(verdict)


def evidence_lines(anomaly: Anomaly) -> list[str]:
    return [f"    {str(entry)[:400]}" for entry in anomaly.evidence]
