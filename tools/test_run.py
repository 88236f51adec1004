"""Run lint, types, the tests, and Spark's, each whatever became of those before; then say what came of all of them.

Spark's tests share one JVM, which several workers would each start: so they run in a process of their own. The others
wait for processes most of the time: three workers keep two cores busy.
"""

import platform
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
PYTEST = (sys.executable, "-m", "pytest", "--durations=10")


@dataclass(frozen=True, slots=True)
class Part:
    """`has_tests`: the command is pytest, which can write a report."""

    name: str
    command: Sequence[str]
    has_tests: bool = False


@dataclass(slots=True)
class Outcome:
    """`failed`: the tests that did, by name."""

    name: str
    is_passed: bool
    seconds: float
    counts: Counter[str] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        state = "passed" if self.is_passed else "FAILED"
        figures = ", ".join(f"{count:,} {what}" for what, count in self.counts.items() if count)
        return [f"  {self.name:<8}{state:<8}{self.seconds:>6.0f} s  {figures}".rstrip()] + [
            f"    FAILED {name}" for name in self.failed
        ]


PARTS = (
    Part("lint", ("make", "--no-print-directory", "lint")),
    Part("types", ("make", "--no-print-directory", "typecheck")),
    Part("tests", (*PYTEST, "-n", "3", "--dist", "worksteal", "--ignore", "tests/spark", "tests"), has_tests=True),
    Part("Spark", (*PYTEST, "tests/spark"), has_tests=True),
)


def run(part: Part) -> Outcome:
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory, "report.xml")
        command = [*part.command, f"--junitxml={report}"] if part.has_tests else [*part.command]
        started = time.monotonic()
        code = subprocess.call(command, cwd=ROOT)
        outcome = Outcome(part.name, code == 0, time.monotonic() - started)
        if part.has_tests:
            read_report(report, outcome)
    return outcome


def read_report(report: Path, outcome: Outcome) -> None:
    """What pytest counted. There is nothing if it did not come to an end."""
    if not report.exists():
        outcome.is_passed = False
        outcome.failed.append("pytest itself: it ended without a report")
        return
    counts = Counter[str]()
    for case in ElementTree.parse(report).iter("testcase"):
        kinds = {child.tag for child in case}
        if kinds & {"failure", "error"}:
            counts["failed"] += 1
            outcome.failed.append(f"{case.get('classname', '')}::{case.get('name', '')}".removeprefix("::"))
        else:
            counts["skipped" if "skipped" in kinds else "passed"] += 1
    outcome.counts = Counter({kind: counts[kind] for kind in ("failed", "passed", "skipped")})


def summary(outcomes: Sequence[Outcome]) -> str:
    lines = [line for outcome in outcomes for line in outcome.lines()]
    failed = [outcome.name for outcome in outcomes if not outcome.is_passed]
    verdict = f"FAILED: {', '.join(failed)}" if failed else "everything passed"
    return "\n".join([f"\nPython {platform.python_version()}, {sys.executable}", *lines, verdict])


def main(parts: Sequence[Part] = PARTS) -> int:
    print(f"make test with Python {platform.python_version()}, {sys.executable}", flush=True)
    outcomes = []
    for part in parts:
        print(f"\n== {part.name}", flush=True)
        outcomes.append(run(part))
    print(summary(outcomes), flush=True)
    return 0 if all(outcome.is_passed for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
