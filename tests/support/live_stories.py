"""Histories of live clusters, told by hand: one line an entry, a millisecond apart."""

from collections.abc import Sequence
from dataclasses import replace

from lograft.broker.replica.interfaces import Acks
from lograft.chaos.checkers.anomalies import Anomaly, AnomalyName
from lograft.chaos.checkers.verdict import CHECKERS, judge
from lograft.chaos.history.entries import (
    Acknowledged,
    AskEnds,
    AssignmentChanged,
    Commit,
    CommittedOffset,
    ConfigRead,
    ConfigTold,
    ConfigWrite,
    Done,
    ElectionHeld,
    EndsTold,
    Entry,
    Failed,
    FetchOffsets,
    FinalReplica,
    GroupDrained,
    LeaderSeen,
    Moment,
    OffsetsFetched,
    Poll,
    Polled,
    PolledPartition,
    Send,
    StoredRecord,
    ToldEnd,
    TopicDeclared,
    UncleanElection,
    Unknown,
    digest_of,
)
from lograft.chaos.history.history import History
from lograft.chaos.history.history_index import HistoryIndex
from lograft.clients.types import TopicPartition

ORDERS = TopicPartition("orders", 0)


class Story:
    """All about one partition, unless told otherwise."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._now_ms = 0

    def tick(self) -> Moment:
        self._now_ms += 1
        return Moment(self._now_ms * 1000, self._now_ms * 1000)

    def add(self, entry: Entry) -> Entry:
        self.entries.append(entry)
        return entry

    @property
    def history(self) -> History:
        return History(self.entries)

    # -- records

    def send(
        self,
        value: str,
        offset: int | None = None,
        *,
        producer: str = "ann",
        key: str | None = None,
        acks: Acks = Acks.ALL,
        partition: int = 0,
        leader_epoch: int | None = None,
        deletes: bool = False,
        transaction: str | None = None,
    ) -> Entry:
        """With an offset it is acknowledged there; without one, nobody knows."""
        number, invoked = len(self.entries), self.tick()
        completion: Acknowledged | Unknown = Unknown()
        if offset is not None:
            completion = Acknowledged(self.tick(), partition, offset, leader_epoch=leader_epoch)
        send = Send("clients", number, invoked, "orders", value, producer, number, partition, key, deletes, acks)
        return self.add(replace(send, completion=completion, transaction=transaction))

    def send_somewhere(self, value: str) -> Entry:
        """Acknowledged, but nobody is told where."""
        number, invoked = len(self.entries), self.tick()
        told = Acknowledged(self.tick(), 0)
        return self.add(Send("clients", number, invoked, "orders", value, "ann", number, 0, completion=told))

    def refused(self, value: str) -> Entry:
        number, invoked = len(self.entries), self.tick()
        failed = Failed(self.tick(), "RECORD_TOO_LARGE", "too large")
        return self.add(Send("clients", number, invoked, "orders", value, "ann", number, 0, completion=failed))

    def poll(
        self,
        values: dict[int, str],
        *,
        consumer: str = "bob",
        group: str | None = None,
        fresh: bool = False,
        before: int | None = None,
        after: int | None = None,
        leader_epoch: int | None = None,
        log_start: int | None = None,
    ) -> Entry:
        number, invoked = len(self.entries), self.tick()
        read = tuple(values), tuple(values.values())
        part = PolledPartition(ORDERS, *read, before, after, fresh, leader_epoch, log_start)
        return self.add(Poll("clients", number, invoked, consumer, group, Polled(self.tick(), (part,))))

    # -- groups

    def commit(self, offset: int, *, reset: bool = False, group: str = "billing") -> Entry:
        number, invoked, offsets = len(self.entries), self.tick(), (CommittedOffset(ORDERS, offset),)
        return self.add(Commit("clients", number, invoked, group, "m1", offsets, reset, Done(self.tick())))

    def fetched(self, offset: int, *, group: str = "billing") -> Entry:
        number, invoked, offsets = len(self.entries), self.tick(), (CommittedOffset(ORDERS, offset),)
        return self.add(FetchOffsets("clients", number, invoked, group, OffsetsFetched(self.tick(), offsets)))

    def assigned(self, member: str, epoch: int | None, *, gained: bool = False, lost: bool = False) -> Entry:
        some, none = (ORDERS,), ()
        change = AssignmentChanged(
            self.tick(), "billing", member, some if gained else none, some if lost else none, epoch
        )
        return self.add(change)

    def drained(self) -> Entry:
        return self.add(GroupDrained(self.tick(), "billing", "orders"))

    # -- the cluster

    def declare(self, *, compacted: bool = False, limited: bool = False) -> Entry:
        return self.add(TopicDeclared(self.tick(), "orders", compacted, limited))

    def ends(self, offset: int, *, client: str = "bob", leader_epoch: int | None = None) -> Entry:
        number, invoked, end = len(self.entries), self.tick(), ToldEnd(ORDERS, offset, leader_epoch)
        return self.add(AskEnds("clients", number, invoked, client, EndsTold(self.tick(), (end,))))

    def leader(self, leader_epoch: int, broker: int) -> Entry:
        return self.add(LeaderSeen(self.tick(), ORDERS, leader_epoch, broker, "bob"))

    def unclean(self, leader_epoch: int | None) -> Entry:
        """None: nobody knows whether it was held."""
        number, invoked = len(self.entries), self.tick()
        held = Unknown() if leader_epoch is None else ElectionHeld(self.tick(), leader_epoch)
        return self.add(UncleanElection("operator", number, invoked, ORDERS, held))

    def write(self, value: str, *, known: bool = True) -> Entry:
        number, invoked = len(self.entries), self.tick()
        done = Done(self.tick()) if known else Unknown()
        return self.add(ConfigWrite("clients", number, invoked, "orders", "retention.ms", value, done))

    def read(self, value: str | None) -> Entry:
        number, invoked = len(self.entries), self.tick()
        told = ConfigTold(self.tick(), value)
        return self.add(ConfigRead("clients", number, invoked, "orders", "retention.ms", told))

    def replica(
        self,
        broker: int,
        values: Sequence[str] | dict[int, str],
        *,
        start: int = 0,
        end: int | None = None,
        epochs: dict[int, int] | None = None,
        in_sync: bool = True,
        leader_epoch: int | None = None,
    ) -> FinalReplica:
        by_offset = values if isinstance(values, dict) else dict(enumerate(values, start=start))
        records = [StoredRecord(at, (epochs or {}).get(at, 1), digest_of(value)) for at, value in by_offset.items()]
        end = end if end is not None else max(by_offset, default=start - 1) + 1
        replica = FinalReplica(
            self.tick(), ORDERS, broker, start, end, tuple(records), in_sync, leader_epoch=leader_epoch
        )
        self.add(replica)
        return replica

    def replicas(self, values: Sequence[str] | dict[int, str], *, start: int = 0, end: int | None = None) -> None:
        """On three brokers, all the same."""
        for broker in (1, 2, 3):
            self.replica(broker, values, start=start, end=end)


def found_in(story: Story, name: AnomalyName) -> list[Anomaly]:
    """By the checker of that name."""
    found = list(CHECKERS[name](HistoryIndex(story.history)))
    assert [one.name for one in found] == [name] * len(found)
    return found


def all_names(story: Story) -> list[AnomalyName]:
    """Of what any checker found."""
    return list(judge(story.history).anomaly_counts)
