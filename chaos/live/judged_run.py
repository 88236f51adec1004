"""A complete run, from its start to its report."""

import platform
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from lograft.chaos.checkers.verdict import Verdict, judge
from lograft.chaos.live.cluster.cluster import NotInTime
from lograft.chaos.live.html_report import RunReport, html_report
from lograft.chaos.live.run import Effort, read_run, run_scenario
from lograft.chaos.live.stories.catalogue import ALWAYS
from lograft.chaos.live.stories.story import Scenario
from lograft.chaos.live.terminal_view import LiveView

REPORT = "report.html"

_VERSIONS = ("grpcio", "lmdb", "protobuf")


@dataclass(frozen=True, slots=True)
class JudgedRun:
    """The result of a run. `trouble` is the reason why it did not complete, if it did not."""

    verdict: Verdict
    trouble: str | None
    report: Path

    @property
    def has_held(self) -> bool:
        return self.verdict.is_sound and self.trouble is None

    @staticmethod
    def headline(verdict: Verdict, trouble: str | None) -> str:
        return "everything held" if verdict.is_sound and trouble is None else "NOT everything held"


def judge_run(
    scenario: Scenario,
    seed: int,
    seconds: float,
    place: Path,
    replay: str,
    *,
    view: LiveView | None = None,
    effort: Effort | None = None,
) -> JudgedRun:
    """Run a scenario, blocking, and judge it. Everything to inspect afterwards is in `place`."""
    trouble: str | None = None
    try:
        history = run_scenario(scenario, seed, seconds, place, effort, view)
    except NotInTime as error:
        trouble = f"the cluster did not recover when nothing was wrong any more: {error}"
        history = read_run(place)
    verdict = judge(history)
    about = RunReport(
        scenario.name, scenario.tells, seed, seconds, _versions(), platform.platform(), replay, scenario.holds, ALWAYS
    )
    report = place / REPORT
    report.write_text(html_report(about, history, verdict, trouble))
    return JudgedRun(verdict, trouble, report)


def _versions() -> str:
    others = ", ".join(f"{name} {version(name)}" for name in _VERSIONS)
    return f"lograft {version('lograft')}, Python {platform.python_version()}, {others}"
