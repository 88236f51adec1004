"""The result of one simulated run: coverage figures, and the failure, if any. Pure."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed run. Two runs with the same `kind` fail alike. `anomalies` counts, by name, the anomalies that the
    checkers of live clusters found in the history up to the failure; `evidence` belongs to the first of them."""

    kind: str
    message: str
    anomalies: Mapping[str, int] = field(default_factory=dict)
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of one run. `figures` holds counts by topic, and `faults` the numbers of the faults that took place.
    Two runs with the same `digest` were equal, to the last event."""

    seed: int
    digest: str
    virtual_ms: int
    computing_ms: int
    duration_ms: int
    faults: tuple[int, ...]
    clients: tuple[str, ...]
    figures: Mapping[str, Mapping[str, int]]
    failure: Failure | None = None


def to_json(outcome: RunResult) -> dict[str, Any]:
    return asdict(outcome)


def from_json(found: Mapping[str, Any]) -> RunResult:
    """Parse a result. Raise `ValueError` if `found` is not one."""
    try:
        failure = found["failure"]
        return RunResult(
            **{
                **found,
                "faults": tuple(found["faults"]),
                "clients": tuple(found["clients"]),
                "failure": Failure(**{**failure, "evidence": tuple(failure["evidence"])}) if failure else None,
            }
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"not the outcome of a run: {error}") from error
