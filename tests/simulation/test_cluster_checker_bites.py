"""Rules of replication are broken on purpose, in the production code: the simulator must notice. And histories that
cannot be are written down: each check must refuse its own."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from support.broken_rules import expect_noticed
from support.cluster_chaos import FEW_IN_SYNC, POWER_CUTS, RESTLESS_LEADERS, SLOW_NETWORK

from lograft.broker import replica_leading
from lograft.broker.following import Acknowledge, FollowerCore
from lograft.broker.leading import LeaderCore
from lograft.broker.matching import Matched
from lograft.broker.replica_following import Following
from lograft.broker.replica_leading import Leading
from lograft.chaos.cluster_checks import check_all, check_leader, check_next
from lograft.chaos.cluster_history import ClusterHistory, PartitionKey, Read, Send, Stored, Told
from lograft.chaos.cluster_simulation import simulate_cluster
from lograft.chaos.cluster_weather import ClusterWeather
from lograft.chaos.linearizability import Outcome
from lograft.chaos.raft_invariants import InvariantBroken
from lograft.storage.producer_state import ProducerState

Break = Callable[[pytest.MonkeyPatch], None]


def acknowledge_before_the_disk_has_it(patch: pytest.MonkeyPatch) -> None:
    """Leader and followers alike."""

    def acknowledgement(core: FollowerCore) -> Acknowledge | None:
        state, end_offset, epoch = core.state, core._log.end_offset, core.partition.partition_epoch
        told = (getattr(state, "told_end", None), getattr(state, "told_partition_epoch", None))
        if not core.is_matched(getattr(state, "number", -1)) or told == (end_offset, epoch):
            return None
        state.told_end, state.told_partition_epoch = end_offset, epoch  # type: ignore[union-attr]
        return Acknowledge(state.number, core.leader_epoch, epoch, end_offset)  # type: ignore[union-attr]

    original_heard, original_tell = Following._heard, Leading._tell_feeds

    def heard(following: Following, log_start: int, *, has_moved: bool) -> None:
        original_heard(following, log_start, has_moved=has_moved)
        following.became_durable()

    def tell_feeds(leading: Leading) -> None:
        original_tell(leading)
        leading.core.durable_end = leading.core.end_offset

    patch.setattr(FollowerCore, "acknowledgement", acknowledgement)
    patch.setattr(Following, "_heard", heard)
    patch.setattr(Leading, "_tell_feeds", tell_feeds)
    patch.setattr(LeaderCore, "own_durable", lambda core, durable_end: core._advance())


def keep_what_the_leader_does_not_have(patch: pytest.MonkeyPatch) -> None:
    """A follower is taken for matched wherever its log is not longer than the leader's."""
    original = replica_leading.match

    def match(log: Any, tombstones_removed_below: int, last_epoch: int | None, end_offset: int) -> Any:
        if end_offset <= log.end_offset:
            return Matched()
        return original(log, tombstones_removed_below, last_epoch, end_offset)

    patch.setattr(replica_leading, "match", match)


def truncate_by_watermark(patch: pytest.MonkeyPatch) -> None:
    """As if all above a follower's own watermark were in doubt."""
    original = Following.settle
    done: dict[Following, None] = {}

    async def settle(following: Following) -> None:
        await original(following)
        if following not in done and following._log.end_offset > following.high_watermark:
            done[following] = None
            async with following._operations.exclusively():
                await following._log.truncate(following.high_watermark)
            await original(following)

    patch.setattr(Following, "settle", settle)


def forget_producers(patch: pytest.MonkeyPatch) -> None:
    """Nothing is a duplicate, nothing out of order."""
    patch.setattr(ProducerState, "check", lambda state, header: None)


def serve_a_watermark_that_is_not_known(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LeaderCore, "watermark_is_known", True)


def acknowledge_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Leading, "_is_acknowledged", lambda leading, acks, next_offset: True)


def acknowledge_below_the_minimum(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LeaderCore, "has_enough_in_sync", True)


def serve_uncommitted(patch: pytest.MonkeyPatch) -> None:
    """Readers get all that the leader has."""
    patch.setattr("lograft.broker.replica.read_log", _read_to_the_end)


async def _read_to_the_end(log: Any, offset: int, max_bytes: int, bound: int) -> Any:
    from lograft.broker.log_reading import read_log

    return await read_log(log, offset, max_bytes, log.end_offset)


@pytest.mark.parametrize(("break_rule", "weather"), [
    (acknowledge_before_the_disk_has_it, POWER_CUTS),
    (keep_what_the_leader_does_not_have, RESTLESS_LEADERS),
    (truncate_by_watermark, SLOW_NETWORK),
    (forget_producers, RESTLESS_LEADERS),
    (serve_a_watermark_that_is_not_known, SLOW_NETWORK),
    (acknowledge_at_once, RESTLESS_LEADERS),
    (acknowledge_below_the_minimum, FEW_IN_SYNC),
    (serve_uncommitted, RESTLESS_LEADERS),
])  # fmt: skip
def test_a_broken_rule_is_noticed(monkeypatch: pytest.MonkeyPatch, break_rule: Break, weather: ClusterWeather) -> None:
    expect_noticed(monkeypatch, break_rule, lambda seed: simulate_cluster(seed, weather), seeds=12)


# -- histories that cannot be

KEY: PartitionKey = (UUID(int=1), 0)
Logs = dict[PartitionKey, dict[int, list[Stored]]]


def good() -> tuple[ClusterHistory, Logs]:
    """Two records of one producer, read and told of, on two replicas."""
    history = ClusterHistory()
    for number, value in enumerate((b"a", b"b")):
        history.sends[value] = Send(KEY, "p", number, value, outcome=Outcome.OK, offset=number)
        history.reads.append(Read(KEY, "c", number, value))
    history.told += [Told(KEY, 1, 1, 10, 20), Told(KEY, 1, 2, 30, 40), Told(KEY, 2, 2, 5, 60)]
    log = [Stored(0, 1, b"a"), Stored(1, 2, b"b")]
    return history, {KEY: {1: log, 2: list(log)}}


def _in_all_logs(logs: Logs, log: list[Stored]) -> None:
    logs[KEY] = {1: log, 2: list(log)}


def _lost(history: ClusterHistory, logs: Logs) -> None:
    history.reads.clear()
    history.told.clear()
    _in_all_logs(logs, logs[KEY][1][:1])


def _moved(history: ClusterHistory, logs: Logs) -> None:
    history.reads.clear()
    history.sends[b"b"].offset = 5


def _twice(history: ClusterHistory, logs: Logs) -> None:
    _in_all_logs(logs, [*logs[KEY][1], Stored(2, 2, b"a")])


def _out_of_order(history: ClusterHistory, logs: Logs) -> None:
    history.sends[b"a"].number = 7


def _phantom(history: ClusterHistory, logs: Logs) -> None:
    _in_all_logs(logs, [*logs[KEY][1], Stored(2, 2, b"x")])


def _phantom_read(history: ClusterHistory, logs: Logs) -> None:
    history.reads.append(Read(KEY, "d", 2, b"x"))


def _refused(history: ClusterHistory, logs: Logs) -> None:
    history.sends[b"b"].outcome = Outcome.FAIL


def _not_taken(history: ClusterHistory, logs: Logs) -> None:
    history.refused[b"b"] = "no"


def _different(history: ClusterHistory, logs: Logs) -> None:
    logs[KEY][2][1] = Stored(1, 1, b"b")


def _shorter(history: ClusterHistory, logs: Logs) -> None:
    logs[KEY][2].pop()


def _taken_back(history: ClusterHistory, logs: Logs) -> None:
    history.sends[b"b"].outcome = Outcome.UNKNOWN
    history.told.clear()
    _in_all_logs(logs, logs[KEY][1][:1])


def _read_otherwise(history: ClusterHistory, logs: Logs) -> None:
    history.reads.append(Read(KEY, "d", 0, b"b"))


def _hole(history: ClusterHistory, logs: Logs) -> None:
    _in_all_logs(logs, [Stored(0, 1, b"a"), Stored(2, 2, b"b")])


def _epoch_falls(history: ClusterHistory, logs: Logs) -> None:
    _in_all_logs(logs, [Stored(0, 3, b"a"), Stored(1, 2, b"b")])


def _watermark_back(history: ClusterHistory, logs: Logs) -> None:
    history.told.append(Told(KEY, 1, 1, 50, 70))


def _later_epoch_behind(history: ClusterHistory, logs: Logs) -> None:
    history.told.append(Told(KEY, 2, 1, 1, 2))


def _told_too_much(history: ClusterHistory, logs: Logs) -> None:
    history.told.append(Told(KEY, 3, 9, 80, 90))


@pytest.mark.parametrize(("spoil", "rule"), [
    (_lost, "acknowledged is at its offset"),
    (_moved, "acknowledged is at its offset"),
    (_twice, "stored once"),
    (_out_of_order, "in order"),
    (_phantom, "no phantoms"),
    (_phantom_read, "no phantoms are read"),
    (_refused, "what failed for certain is not stored"),
    (_not_taken, "what is refused is not stored"),
    (_different, "replicas in sync agree"),
    (_shorter, "replicas in sync agree"),
    (_taken_back, "what was served is not taken back"),
    (_read_otherwise, "what was served stays"),
    (_hole, "offsets are dense"),
    (_epoch_falls, "epochs do not fall"),
    (_watermark_back, "the watermark does not go back"),
    (_later_epoch_behind, "the watermark of a later epoch is not behind"),
    (_told_too_much, "what was told to be committed is there"),
])  # fmt: skip
def test_a_history_that_cannot_be_is_refused(spoil: Callable[[ClusterHistory, Logs], None], rule: str) -> None:
    history, logs = good()
    check_all(history, logs)
    spoil(history, logs)
    with pytest.raises(InvariantBroken) as broken:
        check_all(history, logs)
    assert broken.value.rule == rule


def test_after_an_unclean_election_records_may_be_gone_but_are_not_twice_there() -> None:
    history, logs = good()
    history.unclean[KEY] = 2
    _in_all_logs(logs, logs[KEY][1][:1])
    check_all(history, logs)
    _in_all_logs(logs, [Stored(0, 1, b"a"), Stored(1, 2, b"a")])
    with pytest.raises(InvariantBroken, match="stored once"):
        check_all(history, logs)


def test_two_leaders_of_an_epoch_and_a_gap_are_refused() -> None:
    history = ClusterHistory()
    check_leader(history, KEY, 1, "n1#1")
    check_leader(history, KEY, 1, "n1#1")
    check_leader(history, KEY, 2, "n2#1")
    with pytest.raises(InvariantBroken, match="one leader an epoch"):
        check_leader(history, KEY, 1, "n1#2")
    check_next(None, Read(KEY, "c", 0, b"a"))
    check_next(0, Read(KEY, "c", 1, b"b"))
    for offset in (0, 2):
        with pytest.raises(InvariantBroken, match="no gaps"):
            check_next(0, Read(KEY, "c", offset, b"b"))
