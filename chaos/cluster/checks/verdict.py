"""Raises the verdict of the live clusters' checkers on a simulated run as an error, if there is an anomaly."""

from lograft.chaos.checkers.anomalies import Anomaly
from lograft.chaos.checkers.verdict import Verdict
from lograft.chaos.harness.failures import InvariantBroken


class AnomaliesFound(InvariantBroken):
    """Anomalies were found. `rule` names the first one. `verdict` has all of them, with their evidence."""

    def __init__(self, verdict: Verdict) -> None:
        first = verdict.anomalies[0]
        super().__init__(first.name.value, first.summary)
        self.verdict = verdict
        for name, count in verdict.anomaly_counts.items():
            self.add_note(f"{name.value}: {count}")
        for line in evidence_lines(first):
            self.add_note(line)


class NotJudged(InvariantBroken):
    """A check was not possible, although in a simulated run every check is."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__("all can be judged", "; ".join(verdict.unjudged))


def expect_sound(verdict: Verdict) -> None:
    if verdict.anomalies:
        raise AnomaliesFound(verdict)
    if verdict.unjudged:
        raise NotJudged(verdict)


def evidence_lines(anomaly: Anomaly) -> list[str]:
    return [f"    {str(entry)[:400]}" for entry in anomaly.evidence]
