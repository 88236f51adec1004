"""The part of a simulated run that takes place: everything its seed implies, or less. Pure.

Leaving something out changes the rest as little as possible: the times, kinds and targets of faults follow from the
seed and their numbers, and clients left out exist, but do nothing.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Selection:
    """A selection. `duration_ms` limits the faults. `only_faults` and `without_faults` hold the numbers printed in the
    run's story. `without_clients` holds names, including those of operators. None: as the seed implies."""

    duration_ms: int | None = None
    only_faults: tuple[int, ...] | None = None
    without_faults: tuple[int, ...] = ()
    without_clients: tuple[str, ...] = ()

    def has_fault(self, number: int) -> bool:
        is_chosen = self.only_faults is None or number in self.only_faults
        return is_chosen and number not in self.without_faults

    def has_client(self, name: str) -> bool:
        return name not in self.without_clients


EVERYTHING = Selection()
