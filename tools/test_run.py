"""Run lint, types, the tests, and Spark's, each whatever became of the others; then say what came of all of them.

Spark's tests share one JVM, which several workers would each start: so they run in a process of their own, after lint
and types, beside the others. Those wait for processes much of the time: three workers and Spark keep two cores busy.
"""

import platform
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
PYTEST = (sys.executable, "-m", "pytest", "--durations=10")


@dataclass(frozen=True, slots=True)
class Part:
    """`has_tests`: the command is pytest, which can write a report. `lane`: parts of one run one after the other, lanes
    beside each other. What the first lane writes is shown at once, what others write when the part is over."""

    name: str
    command: Sequence[str]
    has_tests: bool = False
    lane: int = 0


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
    Part("lint", ("make", "--no-print-directory", "lint"), lane=1),
    Part("types", ("make", "--no-print-directory", "typecheck"), lane=1),
    Part("tests", (*PYTEST, "-n", "3", "--dist", "loadgroup", "--ignore", "tests/spark", "tests"), has_tests=True),
    Part("Spark", (*PYTEST, "tests/spark"), has_tests=True, lane=1),
)


def run(part: Part) -> Outcome:
    with tempfile.TemporaryDirectory() as directory:
        report, output = Path(directory, "report.xml"), Path(directory, "output")
        command = [*part.command, f"--junitxml={report}"] if part.has_tests else [*part.command]
        started = time.monotonic()
        if part.lane == 0:
            print(f"\n== {part.name}", flush=True)
            code = subprocess.call(command, cwd=ROOT)
        else:
            with output.open("wb") as file:
                code = subprocess.call(command, cwd=ROOT, stdout=file, stderr=subprocess.STDOUT)
            print(f"\n== {part.name}\n{output.read_text(errors='replace')}", flush=True)
        outcome = Outcome(part.name, code == 0, time.monotonic() - started)
        if part.has_tests:
            read_report(report, outcome)
    return outcome


def run_all(parts: Sequence[Part]) -> list[Outcome]:
    """What came of each, in their order."""
    lanes: dict[int, list[Part]] = {}
    for part in parts:
        lanes.setdefault(part.lane, []).append(part)
    with ThreadPoolExecutor(len(lanes)) as pool:
        outcomes = [
            each for lane in pool.map(lambda lane: [run(part) for part in lane], lanes.values()) for each in lane
        ]
    order = [part.name for part in parts]
    return sorted(outcomes, key=lambda outcome: order.index(outcome.name))


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
    started = time.monotonic()
    outcomes = run_all(parts)
    print(f"{summary(outcomes)} in {time.monotonic() - started:.0f} s", flush=True)
    return 0 if all(outcome.is_passed for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
