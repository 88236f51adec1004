"""What was measured, as it is kept in a file: enough to make chart and table of it again."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

FORMAT = "lograft-compare-1"


class UnknownResults(ValueError):
    """Not a file that the comparison wrote."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One figure, of one system in one round. `how` is the client's function; `setting` is what makes it as durable as
    `durability` says. Both are empty where they make no difference."""

    round: int
    workload: str
    system: str
    how: str
    durability: str
    setting: str
    unit: str
    value: float


@dataclass(slots=True)
class Results:
    machine: str
    effort: str
    began: str
    versions: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    others_cores: list[float] = field(default_factory=list)
    """Cores that were busy with other people's work just before each round."""
    samples: list[Sample] = field(default_factory=list)


def to_json(results: Results) -> str:
    return json.dumps({"format": FORMAT, **asdict(results)}, indent=1) + "\n"


def from_json(text: str) -> Results:
    try:
        fields: dict[str, Any] = json.loads(text)
        if fields.pop("format", None) != FORMAT:
            raise UnknownResults(f"it is not of format {FORMAT}")
        samples: Sequence[dict[str, Any]] = fields.pop("samples")
        return Results(**fields, samples=[Sample(**sample) for sample in samples])
    except (AttributeError, KeyError, TypeError, json.JSONDecodeError) as error:
        raise UnknownResults(str(error)) from None


def read_results(path: Path) -> Results:
    return from_json(path.read_text())
