"""Something broken on purpose in the production code, and the trial in which a simulator must notice it."""

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import pytest
from support.cluster_stories import STAGE
from support.metadata_chaos import S, tell

from lograft.chaos.cluster.simulation import SimulatedCluster, simulate_cluster
from lograft.chaos.cluster.world.weather import ClusterWeather
from lograft.chaos.harness.failures import InvariantBroken, NotLive
from lograft.chaos.metadata.simulation import simulate_metadata
from lograft.chaos.metadata.weather import MetadataWeather
from lograft.chaos.raft.core_simulation import simulate_cores
from lograft.chaos.raft.linearizability import NotLinearizable
from lograft.chaos.raft.node_simulation import simulate_nodes
from lograft.chaos.raft.weather import Weather

CAUGHT = (InvariantBroken, NotLinearizable, NotLive, AssertionError)

Break = Callable[[pytest.MonkeyPatch], None]
Story = Callable[[SimulatedCluster], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Trial:
    """What is run from a seed. A story is noticed with its one seed; chance, with the first of several that shows it:
    those that are known to be quick come first."""

    run: Callable[[int], object]
    seeds: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Mutation:
    """`says`: what the simulator says of it."""

    name: str
    break_rule: Break
    trial: Trial
    says: str

    def is_noticed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Fail unless a seed fails with the rule broken, saying that, and passes with the rule."""
        for seed in self.trial.seeds:
            said = self._said_when_broken(monkeypatch, seed)
            print(f"seed {seed}: {said[:300]}")
            if self.says in said:
                self.trial.run(seed)
                return
        pytest.fail(f"not noticed with {len(self.trial.seeds)} seeds: nothing says {self.says!r}")

    def _said_when_broken(self, monkeypatch: pytest.MonkeyPatch, seed: int) -> str:
        with monkeypatch.context() as broken:
            self.break_rule(broken)
            try:
                self.trial.run(seed)
            except CAUGHT as error:
                return f"{type(error).__name__}: {error}"
        return "nothing"


def _from(quickest: int, count: int) -> tuple[int, ...]:
    return tuple(dict.fromkeys([quickest, *range(count)]))


# -- by chance


def raft_cores(weather: Weather, seeds: int = 10, quickest: int = 0) -> Trial:
    return Trial(lambda seed: simulate_cores(seed, weather), _from(quickest, seeds))


def raft_nodes(weather: Weather, *, is_streamed: bool, seeds: int = 5) -> Trial:
    return Trial(lambda seed: simulate_nodes(seed, weather, is_streamed=is_streamed), _from(0, seeds))


def metadata(weather: MetadataWeather, seeds: int = 5, quickest: int = 0) -> Trial:
    return Trial(lambda seed: simulate_metadata(seed, weather), _from(quickest, seeds))


def clusters(weather: ClusterWeather, seeds: int = 12, quickest: int = 0) -> Trial:
    return Trial(lambda seed: simulate_cluster(seed, weather), _from(quickest, seeds))


# -- at a certain moment


def story(plot: Story, weather: ClusterWeather = STAGE, *, seed: int = 4, meets: str | None = None) -> Trial:
    """`seed`: the moment that a story is about comes with most, not with all. `meets`: what has to occur in it."""

    def run(seed: int) -> None:
        sights = simulate_cluster(seed, weather, story=plot).sights
        assert meets is None or sights[meets], f"the story is about {meets}"

    return Trial(run, (seed,))


def metadata_story(story_type: type[S], plot: Callable[[S], Coroutine[Any, Any, None]]) -> Trial:
    return Trial(lambda seed: tell(story_type, plot, seed=seed), (1,))
