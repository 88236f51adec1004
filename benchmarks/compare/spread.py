"""Medians, how far rounds lie apart, and how many times better one is than another. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from compare.results import Sample

HIGHER_IS_BETTER = {"records/s": True, "ms": False, "s": False, "MB": False, "s/GB": False}


@dataclass(frozen=True, slots=True)
class Spread:
    """The middle of several rounds, the least and the most."""

    middle: float
    least: float
    most: float


def spread_of(values: Iterable[float]) -> Spread:
    ordered = sorted(values)
    return Spread(median(ordered), ordered[0], ordered[-1])


@dataclass(frozen=True)
class Line:
    """A contender in a workload: its figures by round."""

    workload: str
    system: str
    how: str
    durability: str
    setting: str
    unit: str
    by_round: Mapping[int, float]

    @property
    def spread(self) -> Spread:
        return spread_of(self.by_round.values())

    @property
    def name(self) -> str:
        return " ".join(part for part in (self.system, self.how) if part)

    @property
    def is_ours(self) -> bool:
        return self.system == "lograft"


def lines_of(samples: Sequence[Sample]) -> list[Line]:
    """One for each contender of each workload, in the order they came."""
    grouped: dict[tuple[str, ...], dict[int, float]] = {}
    for one in samples:
        key = (one.workload, one.system, one.how, one.durability, one.setting, one.unit)
        grouped.setdefault(key, {})[one.round] = one.value
    return [Line(*key, by_round=rounds) for key, rounds in grouped.items()]  # type: ignore[arg-type, misc]


def advantage(ours: Line, theirs: Line) -> Spread | None:
    """How many times better ours is, above 1, or worse, below: round by round, because machines change from minute to
    minute. None if no round has both."""
    assert ours.unit == theirs.unit
    ratios = [
        ours.by_round[number] / theirs.by_round[number]
        if HIGHER_IS_BETTER[ours.unit]
        else theirs.by_round[number] / ours.by_round[number]
        for number in sorted(ours.by_round.keys() & theirs.by_round.keys())
        if ours.by_round[number] and theirs.by_round[number]
    ]
    return spread_of(ratios) if ratios else None


def our_match(theirs: Line, lines: Sequence[Line], how: str) -> Line | None:
    """Our line of the same workload and the same durability, by that function of ours."""
    return next(
        (
            line
            for line in lines
            if line.is_ours and (line.workload, line.durability, line.how) == (theirs.workload, theirs.durability, how)
        ),
        None,
    )
