"""A requested simulated run: a seed, and a selection of its faults and clients. Pure."""

from dataclasses import dataclass

from lograft.chaos.cluster.world.selection import EVERYTHING, Selection

COMMAND = "lograft chaos simulate"


@dataclass(frozen=True, slots=True)
class Case:
    seed: int
    selection: Selection = EVERYTHING

    @property
    def command(self) -> str:
        """The command that repeats this exact run."""
        return " ".join([COMMAND, f"--seed {self.seed}", *_options(self.selection)])


def _options(selection: Selection) -> list[str]:
    found = []
    if selection.duration_ms is not None:
        found.append(f"--duration {selection.duration_ms}ms")
    if selection.only_faults is not None:
        found.append(f"--only-faults {numbers_text(selection.only_faults)}")
    if selection.without_faults:
        found.append(f"--without-faults {numbers_text(selection.without_faults)}")
    if selection.without_clients:
        found.append(f"--without-clients {','.join(selection.without_clients)}")
    return found


NO_NUMBERS = "none"


def numbers_text(numbers: tuple[int, ...]) -> str:
    return ",".join(map(str, numbers)) or NO_NUMBERS


def read_numbers(text: str) -> tuple[int, ...]:
    """Parse `3,7,9` or `none`. Raise `ValueError` if `text` is neither."""
    if text == NO_NUMBERS:
        return ()
    numbers = [int(each) for each in text.split(",")]
    if min(numbers) < 0:
        raise ValueError(text)
    return tuple(sorted(set(numbers)))
