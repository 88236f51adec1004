"""A campaign of many seeds, run over any number of sittings. A file records each seed that ran, and its verdict."""

import json
from collections.abc import Iterator
from pathlib import Path

from lograft.chaos.simulate.run_result import RunResult, from_json, to_json
from lograft.cli.common.command_error import CommandError


class SeedCampaign:
    """Run seeds `first`, `first + 1`, and so on. Write each outcome as one line, as soon as it is known."""

    def __init__(self, path: Path, first: int) -> None:
        """Read the campaign in `path`. A new file starts at `first`; an existing one keeps its own first seed."""
        self.outcomes: dict[int, RunResult] = {}
        self._path = path
        self.first = self._read(first)

    def _read(self, first: int) -> int:
        if not self._path.exists():
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text(json.dumps({"campaign": first}) + "\n")
            return first
        text = self._path.read_text()
        whole, _, torn = text.rpartition("\n")
        if torn:  # the writer died in the middle of a line
            self._path.write_text(f"{whole}\n" if whole else "")
        lines = whole.splitlines()
        try:
            first = int(json.loads(lines[0])["campaign"])
            for line in lines[1:]:
                outcome = from_json(json.loads(line))
                self.outcomes[outcome.seed] = outcome
        except (IndexError, KeyError, TypeError, ValueError) as error:
            raise CommandError(
                f"{self._path} is not the file of a campaign: {error}", "give --campaign another file, which is made"
            ) from None
        return first

    def left(self, seeds: int) -> Iterator[int]:
        """Yield those of the campaign's first `seeds` seeds that have no outcome yet."""
        return (seed for seed in range(self.first, self.first + seeds) if seed not in self.outcomes)

    def add(self, outcome: RunResult) -> None:
        self.outcomes[outcome.seed] = outcome
        with self._path.open("a") as file:
            file.write(json.dumps(to_json(outcome), separators=(",", ":")) + "\n")
