"""How often a store was opened, by which a copy of it from the past is known. Pure.

Each opening has a number and a token of its own. A copy that is put back goes on counting from where it was made, with
other tokens than the original had. So whoever has noted an opening of the original finds that the copy never had it,
however often the copy has been opened since.
"""

from collections.abc import Sequence
from dataclasses import dataclass

TOKEN_BITS = 32
REMEMBERED = 10_000
"""Openings whose tokens a store keeps: 40 KB. Whoever has not heard of a member for longer than that refuses it."""


@dataclass(frozen=True, slots=True, order=True)
class StoreStart:
    """One opening of a store: the first has number 1. `token` tells it from that of a copy with the same number."""

    number: int
    token: int


@dataclass(frozen=True, slots=True)
class StoreStarts:
    """All openings of a store: how many, and the tokens of the latest ones, in order."""

    count: int = 0
    tokens: tuple[int, ...] = ()

    @property
    def latest(self) -> StoreStart:
        assert self.tokens, "it was never opened"
        return StoreStart(self.count, self.tokens[-1])

    def followed_by(self, token: int) -> "StoreStarts":
        """With one more opening."""
        return StoreStarts(self.count + 1, (*self.tokens[-(REMEMBERED - 1) :], token))

    def has_had(self, start: StoreStart) -> bool:
        """Whether that was an opening of this store. False as well if it was too long ago to be known."""
        place = start.number - (self.count - len(self.tokens)) - 1
        return 0 <= place < len(self.tokens) and self.tokens[place] == start.token


def check_tokens(count: int, tokens: Sequence[int]) -> None:
    """`ValueError` if there cannot be such openings."""
    if not 0 < len(tokens) <= count or len(tokens) > REMEMBERED:
        raise ValueError(f"{len(tokens)} tokens of {count} openings of a store")
