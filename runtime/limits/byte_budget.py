"""One budget of bytes for many accounts, shared so that an account with little never waits for one with much. Pure.

budget = ByteBudget(limit_bytes)
account = budget.open("ipv4:10.0.0.7:51234")
claim = budget.claim(account, least, most, granted)  # calls `granted()` once it has `claim.size_bytes`, perhaps now
budget.release(claim)  # also while it waits

An account gets at most half of what it leaves free, so that n greedy accounts leave as much to the next one as each of
them has. A quarter of the budget is reserved for accounts that hold nothing and need little. Data that is already in
memory is always charged, even beyond the limit; then other claims wait longer.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

SPARE_PART = 4
"""The spare part, 1/SPARE_PART of the budget, is reserved for accounts that hold nothing."""

_MEBIBYTE = 1024 * 1024
_MOST_OUT_OF_DATE = 64


@dataclass(slots=True, eq=False)
class Account:
    """The account of one connection. `claims`: the number of open claims. `users`: the number of streams that may add
    claims. `waiting`: a heap of waiting claims, by least and number, with some that no longer wait."""

    name: str
    held_bytes: int = 0
    claims: int = 0
    users: int = 0
    waiting: "list[tuple[int, int, Claim]]" = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Claim:
    """A claim. `size_bytes`: the memory it holds; 0 while it waits, and after its release."""

    account: Account
    least: int
    most: int
    granted: Callable[[], None]
    number: int
    size_bytes: int = 0
    is_waiting: bool = True
    is_over: bool = False


@dataclass(slots=True)
class BudgetCounts:
    """`waited`: the number of claims not granted at once. `peak_bytes`: the most memory held so far."""

    waited: int = 0
    peak_bytes: int = 0


@dataclass(slots=True)
class ByteBudget:
    """`small_bytes`: the most that an account without memory may get from the spare part."""

    limit_bytes: int
    small_bytes: int = _MEBIBYTE
    held_bytes: int = 0
    accounts: dict[str, Account] = field(default_factory=dict)
    waiting: dict[int, Claim] = field(default_factory=dict)  # by number, so in order of arrival
    counts: BudgetCounts = field(default_factory=BudgetCounts)
    _next_number: int = 0
    # A heap of each account's first waiting claim, by rank. It may contain outdated entries.
    _line: list[tuple[tuple[int, int], Claim]] = field(default_factory=list)

    # -- accounts

    def open(self, name: str) -> Account:
        """Return the account of that name, and add a user to it. Each user must call `close`."""
        account = self.accounts.setdefault(name, Account(name))
        account.users += 1
        return account

    def close(self, account: Account) -> None:
        """Remove a user from the account. The user must have released all of its claims."""
        account.users -= 1
        assert account.users >= 0
        self._forget_if_unused(account)

    def _forget_if_unused(self, account: Account) -> None:
        if not account.users and not account.claims:
            assert account.held_bytes == 0
            self.accounts.pop(account.name, None)

    # -- claims

    def claim(self, account: Account, least: int, most: int, granted: Callable[[], None]) -> Claim:
        """Return a claim of `least` to `most` bytes, granted once `least` bytes are available."""
        assert 0 <= least <= most
        claim = Claim(account, least, most, granted, self._next_number)
        self._next_number += 1
        account.claims += 1
        if self._is_next(claim) and self._grant(claim):
            return claim
        self.waiting[claim.number] = claim
        heappush(account.waiting, (least, claim.number, claim))
        self._line_up(account)
        self.counts.waited += 1
        return claim

    def charge(self, account: Account, size_bytes: int) -> Claim:
        """Return a claim for data that is already in memory."""
        claim = Claim(account, size_bytes, size_bytes, _nothing, self._next_number, is_waiting=False)
        self._next_number += 1
        account.claims += 1
        self._hold(claim, size_bytes)
        return claim

    def resize(self, claim: Claim, size_bytes: int) -> None:
        """Change the size of a granted claim to the actual size."""
        assert not claim.is_waiting
        assert not claim.is_over
        self._hold(claim, size_bytes - claim.size_bytes)
        self._grant_waiting()

    def release(self, claim: Claim) -> None:
        """Release the whole claim. May be called repeatedly."""
        if claim.is_over:
            return
        claim.is_over = True
        if claim.is_waiting:
            claim.is_waiting = False
            del self.waiting[claim.number]
            self._line_up(claim.account)
        self._hold(claim, -claim.size_bytes)
        claim.account.claims -= 1
        self._forget_if_unused(claim.account)
        self._grant_waiting()

    # -- order of grants

    @property
    def _spare_bytes(self) -> int:
        return self.limit_bytes // SPARE_PART

    def room(self, account: Account) -> int:
        """Return how much the account could get now."""
        free = self.limit_bytes - self._spare_bytes - self.held_bytes
        shared = max(0, (free - account.held_bytes) // 2)
        if account.held_bytes:
            return shared
        return max(shared, min(self.small_bytes, self.limit_bytes - self.held_bytes), 0)

    def _line_up(self, account: Account) -> None:
        """Update the account's place in line, after its first claim or its rank may have changed."""
        waiting = account.waiting
        while waiting and not waiting[0][2].is_waiting:
            heappop(waiting)
        if waiting:
            first = waiting[0][2]
            heappush(self._line, (_rank(first), first))
        if len(self._line) > 2 * len(self.waiting) + _MOST_OUT_OF_DATE:
            latest = {claim: (rank, claim) for rank, claim in self._line if self._is_up_to_date(rank, claim)}
            self._line = list(latest.values())
            heapify(self._line)

    def _is_up_to_date(self, rank: tuple[int, int], claim: Claim) -> bool:
        return claim.is_waiting and claim is claim.account.waiting[0][2] and rank == _rank(claim)

    def _first(self) -> Claim | None:
        """Return the waiting claim whose account would hold the least."""
        while self._line and not self._is_up_to_date(*self._line[0]):
            heappop(self._line)
        return self._line[0][1] if self._line else None

    def _is_next(self, claim: Claim) -> bool:
        """Return whether no waiting claim ranks before this one."""
        first = self._first()
        return first is None or _rank(first) > _rank(claim)

    def _grant(self, claim: Claim) -> bool:
        room = self.room(claim.account)
        if room < claim.least and self.held_bytes:
            return False
        claim.is_waiting = False
        if self.waiting.pop(claim.number, None) is not None:
            self._line_up(claim.account)
        self._hold(claim, max(claim.least, min(claim.most, room)))
        claim.granted()
        return True

    def _grant_waiting(self) -> None:
        while (claim := self._first()) is not None and self._grant(claim):
            pass

    def _hold(self, claim: Claim, more_bytes: int) -> None:
        claim.size_bytes += more_bytes
        claim.account.held_bytes += more_bytes
        self.held_bytes += more_bytes
        assert min(claim.size_bytes, claim.account.held_bytes, self.held_bytes) >= 0
        self.counts.peak_bytes = max(self.counts.peak_bytes, self.held_bytes)
        if more_bytes and claim.account.waiting:
            self._line_up(claim.account)


def _rank(claim: Claim) -> tuple[int, int]:
    """Return the claim's rank: the claim whose account would hold the least comes first, then the oldest."""
    return claim.account.held_bytes + claim.least, claim.number


def _nothing() -> None:
    return
