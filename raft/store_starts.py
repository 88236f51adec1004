"""Numbered openings of a store, which expose a restored older copy of it. Pure.

Each opening has a number and a random token. A restored copy continues counting from where it was made, with other
tokens than the original. So a member that has noted an opening of the original finds that the copy never had it,
however often the copy has been opened since.
"""

from collections.abc import Sequence
from dataclasses import dataclass

TOKEN_BITS = 32
REMEMBERED = 10_000
"""Openings whose tokens a store keeps: 40 KB. A node whose last note of a member is older than that refuses the
member."""


@dataclass(frozen=True, slots=True, order=True)
class StoreStart:
    """One opening of a store; the first has number 1. `token` distinguishes it from a copy's opening of the same
    number."""

    number: int
    token: int


@dataclass(frozen=True, slots=True)
class StoreStarts:
    """All openings of a store: their count, and the tokens of the latest ones in order."""

    count: int = 0
    tokens: tuple[int, ...] = ()

    @property
    def latest(self) -> StoreStart:
        assert self.tokens, "it was never opened"
        return StoreStart(self.count, self.tokens[-1])

    def followed_by(self, token: int) -> "StoreStarts":
        """Return these openings and one more."""
        return StoreStarts(self.count + 1, (*self.tokens[-(REMEMBERED - 1) :], token))

    def has_had(self, start: StoreStart) -> bool:
        """Return True if this store had that opening and still knows it."""
        place = start.number - (self.count - len(self.tokens)) - 1
        return 0 <= place < len(self.tokens) and self.tokens[place] == start.token


def check_tokens(count: int, tokens: Sequence[int]) -> None:
    """Raise ValueError if a store cannot have such openings."""
    if not 0 < len(tokens) <= count or len(tokens) > REMEMBERED:
        raise ValueError(f"{len(tokens)} tokens of {count} openings of a store")
