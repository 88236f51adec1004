"""What of a simulated run takes place: all that its seed says, or less. Pure.

Whatever is left out leaves the rest as it was, as far as that goes: the times of faults, what they are and whom they
choose follow from the seed and their numbers; clients that are left out are there, and do nothing.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Selection:
    """`duration_ms`: of the trouble. `only_faults`, `without_faults`: by the numbers that the story tells.
    `without_clients`: by name, operators included. None: as the seed says."""

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
