"""A campaign runs all stories in sequence. It records each run and its outcome, so that it can be resumed."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from lograft.chaos.live.judged_run import judge_run
from lograft.chaos.live.stories.catalogue import SCENARIOS
from lograft.chaos.live.terminal_view import LiveView

_STATE = "campaign.json"


class CampaignRefused(Exception):
    """The directory holds another campaign."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The outcome of one run. `verdict` is text."""

    name: str
    seed: int
    seconds: float
    has_held: bool
    verdict: str
    sends: int
    acknowledged: int
    available_share: float
    longest_pause_ms: float
    faults: int


class LiveCampaign:
    """Runs stories in `directory`, which holds the state and each run's report. The files of nodes are kept only for
    runs that did not hold."""

    def __init__(
        self, directory: Path, names: tuple[str, ...], seed: int, rounds: int, duration: str, duration_ms: float
    ) -> None:
        self._directory = directory
        self._seconds = duration_ms / 1000
        self._duration = duration
        self._plan = [(name, seed + number) for number in range(rounds) for name in names]
        self._about = {"duration": duration}
        self._path = directory / _STATE
        self.ended: list[Ended] = []
        directory.mkdir(parents=True, exist_ok=True)
        if self._path.exists():
            self._load()

    def _load(self) -> None:
        state = json.loads(self._path.read_text())
        if state["about"] != self._about:
            raise CampaignRefused(f"{self._directory} has a campaign of {state['about']}, not {self._about}")
        self.ended = [Ended(**each) for each in state["ended"]]

    def _save(self) -> None:
        temporary = self._path.with_suffix(".new")
        temporary.write_text(json.dumps({"about": self._about, "ended": [asdict(one) for one in self.ended]}, indent=1))
        os.replace(temporary, self._path)

    @property
    def left(self) -> list[tuple[str, int]]:
        done = {(one.name, one.seed) for one in self.ended}
        return [each for each in self._plan if each not in done]

    @property
    def has_held(self) -> bool:
        return not self.left and all(one.has_held for one in self._planned())

    def _planned(self) -> list[Ended]:
        return [one for one in self.ended if (one.name, one.seed) in self._plan]

    def run(self, make_view: Callable[[], LiveView]) -> Iterator[str]:
        """Run the remaining stories. Yield a line for each that has ended."""
        while left := self.left:
            name, seed = left[0]
            ended = self._run_one(name, seed, make_view())
            self.ended.append(ended)
            self._save()
            yield f"{name}, seed {seed}: {ended.verdict} ({len(left) - 1} to go)"

    def _run_one(self, name: str, seed: int, view: LiveView) -> Ended:
        place = self._directory / f"{name}-{seed}"
        if place.exists():
            shutil.rmtree(place)  # left by an unfinished run
        replay = f"lograft chaos run {name} --seed {seed} --duration {self._duration}"
        judged = judge_run(SCENARIOS[name], seed, self._seconds, place, replay, view=view)
        verdict, known = judged.verdict, judged.verdict.availability
        if judged.has_held:
            for node in place.glob("node-*"):
                shutil.rmtree(node)
        words = [f"{one.value}: {count}" for one, count in verdict.anomaly_counts.items()]
        words += [judged.trouble] if judged.trouble is not None else []
        words += [f"not judged: {each}" for each in verdict.unjudged]
        return Ended(
            name,
            seed,
            self._seconds,
            judged.has_held,
            "held" if judged.has_held else "; ".join(words),
            known.sends,
            known.acknowledged,
            known.available_share,
            0.0 if known.longest_pause is None else known.longest_pause.length_ms,
            len(verdict.faults),
        )

    def summary(self) -> Iterator[str]:
        """Yield a table of all runs."""
        planned = self._planned()
        width = max([len(one.name) for one in planned], default=8)
        head = f"{'story':<{width}}  {'seed':>6}  {'faults':>6}  {'sent':>8}  {'acknowledged':>12}"
        yield f"{head}  {'available':>9}  {'pause':>8}  verdict"
        for one in planned:
            share = one.acknowledged / one.sends if one.sends else 1.0
            yield (
                f"{one.name:<{width}}  {one.seed:>6}  {one.faults:>6}  {one.sends:>8,}  {share:>12.2%}  "
                f"{one.available_share:>9.1%}  {one.longest_pause_ms / 1000:>6.2f} s  {one.verdict}"
            )
        seconds, faults = sum(one.seconds for one in planned), sum(one.faults for one in planned)
        held = sum(one.has_held for one in planned)
        sends = sum(one.sends for one in planned)
        sums = f"{seconds / 60:.0f} minutes of chaos, {faults:,} faults, {sends:,} records"
        yield f"{held} of {len(planned)} held; {sums}"
        if self.left:
            yield f"{len(self.left)} still to be run"
