"""A budget of bytes that many connections share: nothing leaks, nobody is shut out, and no wait is for ever."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lograft.runtime.limits.byte_budget import SPARE_PART, Account, ByteBudget, Claim

LIMIT = 1000
SMALL = 20


def budget(limit: int = LIMIT) -> ByteBudget:
    return ByteBudget(limit, SMALL)


def take(shared: ByteBudget, account: Account, least: int, most: int) -> Claim:
    return shared.claim(account, least, most, lambda: None)


class Sharing(RuleBasedStateMachine):
    """Streams of a few connections that claim, charge, resize, release and die in any order."""

    @initialize()
    def begin(self) -> None:
        self.shared = budget()
        self.streams: list[tuple[Account, list[Claim]]] = []
        self.told: dict[Claim, int] = {}

    @rule(name=st.sampled_from("abcd"))
    def open(self, name: str) -> None:
        self.streams.append((self.shared.open(name), []))

    @precondition(lambda self: self.streams)
    @rule(which=st.integers(0), least=st.integers(0, 400), more=st.integers(0, 400))
    def claim(self, which: int, least: int, more: int) -> None:
        account, claims = self.streams[which % len(self.streams)]
        told: list[bool] = []
        claim = self.shared.claim(account, least, least + more, lambda: told.append(True))
        claims.append(claim)
        assert bool(told) is not claim.is_waiting
        if told:
            assert least <= claim.size_bytes <= least + more

    @precondition(lambda self: self.streams)
    @rule(which=st.integers(0), size=st.integers(0, 900))
    def charge(self, which: int, size: int) -> None:
        account, claims = self.streams[which % len(self.streams)]
        claims.append(self.shared.charge(account, size))

    def _some_claim(self, number: int) -> Claim | None:
        claims = [claim for _, owned in self.streams for claim in owned]
        return claims[number % len(claims)] if claims else None

    @rule(number=st.integers(0), size=st.integers(0, 900))
    def resize(self, number: int, size: int) -> None:
        claim = self._some_claim(number)
        if claim is not None and not claim.is_waiting and not claim.is_over:
            self.shared.resize(claim, size)

    @rule(number=st.integers(0), times=st.integers(1, 2))
    def release(self, number: int, times: int) -> None:
        claim = self._some_claim(number)
        for _ in range(times if claim is not None else 0):
            self.shared.release(claim)  # type: ignore[arg-type]

    @precondition(lambda self: self.streams)
    @rule(which=st.integers(0))
    def die(self, which: int) -> None:
        account, claims = self.streams.pop(which % len(self.streams))
        for claim in claims:
            self.shared.release(claim)
        self.shared.close(account)

    @invariant()
    def who_would_hold_the_least_is_first(self) -> None:
        waiting = self.shared.waiting.values()
        expected = min(waiting, key=lambda one: (one.account.held_bytes + one.least, one.number), default=None)
        assert self.shared._first() is expected
        assert len(self.shared._line) <= 2 * len(waiting) + 65, "what is out of date does not pile up"

    @invariant()
    def what_is_held_is_what_claims_hold(self) -> None:
        if not hasattr(self, "shared"):
            return
        held = {claim: claim.size_bytes for _, claims in self.streams for claim in claims if not claim.is_over}
        assert self.shared.held_bytes == sum(held.values())
        for account in self.shared.accounts.values():
            assert account.held_bytes == sum(size for claim, size in held.items() if claim.account is account)
        assert set(self.shared.accounts) == {account.name for account, _ in self.streams}

    @invariant()
    def nobody_waits_for_nothing(self) -> None:
        if not hasattr(self, "shared") or not self.shared.waiting:
            return
        assert self.shared.held_bytes > 0, "somebody waits, and nothing is held that could be released"
        first = min(self.shared.waiting.values(), key=lambda c: (c.account.held_bytes + c.least, c.number))
        assert self.shared.room(first.account) < first.least

    def teardown(self) -> None:
        if not hasattr(self, "shared"):
            return
        while self.streams:
            self.die(0)
        assert (self.shared.held_bytes, self.shared.accounts, self.shared.waiting) == (0, {}, {})


TestSharing = Sharing.TestCase
TestSharing.settings = settings(deadline=None, stateful_step_count=60, max_examples=60)


@given(greedy=st.integers(1, LIMIT // SPARE_PART // SMALL))
def test_greedy_connections_leave_something_for_who_comes_after_them(greedy: int) -> None:
    """They never give anything back, as one that reads nothing."""
    shared = budget()
    for number in range(greedy):
        account = shared.open(f"greedy {number}")
        for _ in range(5):
            take(shared, account, 1, LIMIT)
    newcomer = take(shared, shared.open("newcomer"), 1, SMALL)
    assert newcomer.size_bytes == SMALL, "what is kept for those that hold nothing is not taken by those that do"
    assert shared.held_bytes <= LIMIT


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 300)), min_size=1, max_size=60))
def test_all_claims_are_met_if_holders_let_go(wanted: list[tuple[str, int]]) -> None:
    """In whatever order: no claim waits for one that waits."""
    shared = budget(200)  # some want more than there is
    granted: list[Claim] = []
    claims = [shared.claim(shared.open(name), size, size, lambda: None) for name, size in wanted]
    for _ in claims:
        holders = [claim for claim in claims if not claim.is_waiting and not claim.is_over]
        assert holders, "nobody holds, and some wait"
        granted.append(holders[0])
        shared.release(holders[0])
    assert set(granted) == set(claims)
    assert shared.held_bytes == 0


def test_who_holds_less_comes_first() -> None:
    shared = budget()
    full = shared.charge(shared.open("full"), LIMIT)
    much, little = shared.open("much"), shared.open("little")
    shared.charge(much, 50)
    order: list[str] = []
    shared.claim(much, 10, 10, lambda: order.append("much"))
    shared.claim(little, 30, 30, lambda: order.append("little"))
    shared.release(full)
    assert order == ["little", "much"]


@given(st.data())
def test_connections_that_want_much_get_about_the_same(data: Any) -> None:
    """In turns, each sends as much as it is let: after a while none has had much more than another."""
    shared = budget(10_000)
    count = data.draw(st.integers(2, 12))
    accounts = [shared.open(str(number)) for number in range(count)]
    had = dict.fromkeys(range(count), 0)
    claims = {number: take(shared, accounts[number], 1, 5000) for number in range(count)}
    for _ in range(300):
        ready = [number for number, claim in claims.items() if not claim.is_waiting]
        number = min(ready, key=lambda each: claims[each].number)  # the longest on its way is done
        had[number] += claims[number].size_bytes
        shared.release(claims[number])
        claims[number] = take(shared, accounts[number], 1, 5000)
    assert max(had.values()) <= 3 * min(had.values())
