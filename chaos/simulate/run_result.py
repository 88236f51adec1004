"""What came of one simulated run: figures of what was met, and what failed, if anything did. Pure."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Failure:
    """`kind`: two runs that fail with the same kind fail alike. `anomalies`: what the checkers of live clusters found,
    by name, in as much of a history as there was; `evidence`: of the first."""

    kind: str
    message: str
    anomalies: Mapping[str, int] = field(default_factory=dict)
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunResult:
    """`figures`: by what they are about. `faults`: the numbers of those that took place. `digest`: two runs with the
    same went the same way, to the last event."""

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
    """Raises `ValueError` for what is none."""
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
