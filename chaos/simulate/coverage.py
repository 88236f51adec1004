"""Coverage of simulated runs: totals of everything they met, and the catalogue entries that none of them met. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lograft.chaos.cluster.world.weather import (
    LOSSES,
    MACHINE_FAULTS,
    PROCESS_FAULTS,
    STORE_LOSSES,
    STORE_WISHES,
    VOTER_WISHES,
    WISHES,
)
from lograft.chaos.simulate.run_result import RunResult

# Everything a run can meet, so that a report can list the entries never met. Crashes have no list: a node may crash in
# any disk call, anywhere in the code.
CATALOGUE: Mapping[str, tuple[str, ...]] = {
    "faults": tuple(sorted({*PROCESS_FAULTS, *MACHINE_FAULTS, *LOSSES, *STORE_LOSSES})),
    "wishes": tuple(sorted({*WISHES, *VOTER_WISHES, *STORE_WISHES, "configure", "elect_unclean"})),
    "met": (
        "elections", "eligible elected", "unclean elections", "leaderless", "joined the isr", "left the isr",
        "logs cut or reset", "logs trimmed", "compactions", "replicas moved", "reassignments through",
        "reassignments cancelled", "reassignments redirected", "more replicas", "fewer replicas", "partitions taken",
        "partitions given up", "partitions lost", "delivered", "delivered again", "committed",
        "strangers refused", "leaders left full disks", "replicas without room left the isr",
    ),
    "events": ("crashed", "found_corrupt", "directory_failed", "below_start", "read_failed", "member_failed"),
    "judged": (
        "records acknowledged by all in sync", "records acknowledged by less", "records that failed for certain",
        "records of unknown fate", "polls", "records read", "watermarks told", "leader epochs", "unclean elections",
        "replicas compared", "records in replicas", "reads and writes of settings", "changes of assignments",
        "commits of groups", "committed offsets asked for",
    ),
}  # fmt: skip

TITLES = {
    "faults": "faults",
    "wishes": "what operators did",
    "met": "what happened",
    "events": "what was noticed",
    "crashes": "crashes, by place",
    "judged": "what was judged",
}


@dataclass(slots=True)
class Coverage:
    """Totals over many runs, by topic: occurrences in `counts`, and the number of runs with any in `runs`."""

    counts: dict[str, Counter[str]] = field(default_factory=lambda: {about: Counter() for about in TITLES})
    runs: dict[str, Counter[str]] = field(default_factory=lambda: {about: Counter() for about in TITLES})

    def add(self, outcome: RunResult) -> None:
        for about in TITLES:
            found = {name: count for name, count in outcome.figures.get(about, {}).items() if count}
            if about == "events":
                found = {name: count for name, count in found.items() if name in CATALOGUE[about]}
            self.counts[about].update(found)
            self.runs[about].update(found.keys())

    def never_met(self) -> dict[str, list[str]]:
        missing = {about: [one for one in names if not self.counts[about][one]] for about, names in CATALOGUE.items()}
        return {about: names for about, names in missing.items() if names}

    def lines(self) -> list[str]:
        """Return a table, most frequent first, followed by the catalogue entries never met."""
        rows: list[tuple[str, str, str]] = []
        for about, title in TITLES.items():
            if self.counts[about]:
                rows.append((title.upper(), "TIMES", "SEEDS"))
                found = sorted(self.counts[about].items(), key=lambda one: (-one[1], one[0]))
                rows += [(f"  {name}", f"{count:,}", f"{self.runs[about][name]:,}") for name, count in found]
        return [
            *_aligned(rows),
            *(f"never met, of {TITLES[about]}: {', '.join(names)}" for about, names in self.never_met().items()),
        ]


def _aligned(rows: Iterable[tuple[str, str, str]]) -> list[str]:
    listed = list(rows)
    widths = [max((len(row[at]) for row in listed), default=0) for at in range(3)]
    return [f"{row[0]:<{widths[0]}}   {row[1]:>{widths[1]}}   {row[2]:>{widths[2]}}" for row in listed]
