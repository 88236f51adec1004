"""A small model of a cluster that keeps its promises, and clients that write a history of it: good ones, at random.

Every client is a coroutine that gives way between its calls, their effects and their answers, so that operations of
different clients overlap. Processes die, calls are lost before or after they had an effect, leaders change, and what
was not committed goes with them; retention and compaction take what they may.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from random import Random

from lograft.broker.replica.interfaces import Acks
from lograft.chaos.history.entries import (
    NEVER_RETURNED,
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
    Fault,
    FetchOffsets,
    FinalReplica,
    GroupDrained,
    LeaderSeen,
    Moment,
    Note,
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
from lograft.clients.types import TopicPartition

Client = Iterator[None]

PLAIN = [TopicPartition("plain", 0), TopicPartition("plain", 1)]
COMPACTED = TopicPartition("compacted", 0)
LIMITED = TopicPartition("limited", 0)
ALL = [*PLAIN, COMPACTED, LIMITED]
BROKERS = [1, 2, 3]


@dataclass
class Log:
    """One partition. `records`: (epoch, send) by offset. Of a compacted one, `removed` is what each replica lacks.
    `cuts`: where each election cut it."""

    partition: TopicPartition
    records: list[tuple[int, Send]] = field(default_factory=list)
    start: int = 0
    watermark: int = 0
    leader_epoch: int = 1
    leader: int = 1
    removed: dict[int, dict[int, None]] = field(default_factory=lambda: {broker: {} for broker in BROKERS})
    cuts: list[int] = field(default_factory=list)

    def append(self, send: Send) -> int:
        self.records.append((self.leader_epoch, send))
        return len(self.records) - 1

    def commit(self) -> None:
        self.watermark = len(self.records)

    def elect(self, rng: Random, keep: int) -> None:
        if keep < self.watermark:
            self.removed = {broker: {} for broker in BROKERS}  # nothing that the new leader has is superseded yet
        del self.records[keep:]
        self.cuts.append(keep)
        self.watermark = min(self.watermark, keep)
        self.start = min(self.start, keep)
        self.leader_epoch += rng.randrange(1, 3)
        self.leader = rng.choice(BROKERS)
        for removed in self.removed.values():
            for offset in [one for one in removed if one >= keep]:
                del removed[offset]

    def compact(self, broker: int, rng: Random) -> None:
        """A replica drops some of what is superseded, and deletions that have nothing left to delete."""
        removed = self.removed[broker]
        for offset in range(self.start, self.watermark):
            send = self.records[offset][1]
            same = [at for at in range(self.start, self.watermark) if self.records[at][1].key == send.key]
            is_alone = send.deletes and all(at in removed for at in same if at < offset)
            if (offset < same[-1] or is_alone) and rng.random() < 0.5:
                removed[offset] = None

    def read(self, position: int, limit: int) -> tuple[list[int], int]:
        """Offsets that are there, and where to go on."""
        position = max(position, self.start)
        end = min(position + limit, self.watermark)
        offsets = [at for at in range(position, end) if at not in self.removed[self.leader]]
        return offsets, max(end, position)


@dataclass
class Fetched:
    """What a consumer has of a partition, and has not given yet."""

    offsets: list[int]
    values: list[str]
    leader_epoch: int
    after: int


class Cluster:
    def __init__(self, rng: Random, *, has_unclean_elections: bool = False) -> None:
        self.rng = rng
        self.has_unclean_elections = has_unclean_elections
        self.logs = {partition: Log(partition) for partition in ALL}
        self.entries: list[Entry] = []
        self.register: str | None = None
        self.group = Group(self)
        self._now_us = 0
        self._number = 0

    def now(self) -> Moment:
        self._now_us += self.rng.randrange(1, 2000)
        return Moment(self._now_us, self._now_us + 10**9)

    def number(self) -> int:
        self._number += 1
        return self._number

    def add(self, entry: Entry) -> None:
        self.entries.append(entry)

    def epoch_told(self, leader_epoch: int) -> int | None:
        return leader_epoch if self.rng.random() < 0.7 else None

    # -- clients

    def producer(self, name: str, count: int) -> Client:
        for sequence in range(count):
            rng = self.rng
            partition = rng.choice(ALL)
            is_compacted = partition == COMPACTED
            send = Send(
                name,
                self.number(),
                self.now(),
                partition.topic,
                f"{name}:{sequence}",
                name,
                sequence,
                partition.partition if rng.random() < 0.5 else None,
                rng.choice("xyz") if is_compacted else None,
                is_compacted and rng.random() < 0.2,
                rng.choice([Acks.ALL, Acks.ALL, Acks.ALL, Acks.LEADER]),
            )
            yield
            fate = rng.random()
            if fate < 0.1:
                self.add(replace(send, completion=Failed(self.now(), "NOT_ENOUGH_REPLICAS")))
                continue
            log = self.logs[partition]
            place = log.append(send) if fate > 0.2 else None
            leader_epoch = log.leader_epoch
            yield
            is_stored = place is not None and leader_epoch == log.leader_epoch and place < len(log.records)
            if is_stored and send.acks is Acks.ALL:
                log.commit()
            if not is_stored or place is None or fate < 0.35:
                at = self.now() if rng.random() < 0.5 else None
                self.add(replace(send, completion=Unknown(at, "TIMED_OUT")))
                continue
            yield
            told = self.epoch_told(leader_epoch)
            done = Acknowledged(self.now(), partition.partition, place, leader_epoch=told)
            self.add(replace(send, completion=done))

    def reader(self, name: str, count: int) -> Client:
        consumer = Reader(self, name, None, ALL)
        for _ in range(count):
            if self.rng.random() < 0.1:
                partition = self.rng.choice(ALL)
                consumer.seek(partition, self.rng.randrange(self.logs[partition].watermark + 1))
            yield from consumer.poll()
            if self.rng.random() < 0.3:
                consumer.fetch(self.rng.choice(ALL))
            yield

    def asker(self, name: str, count: int) -> Client:
        for _ in range(count):
            ask = AskEnds(name, self.number(), self.now(), name)
            yield
            log = self.logs[self.rng.choice(ALL)]
            end = ToldEnd(log.partition, log.watermark, self.epoch_told(log.leader_epoch))
            yield
            self.add(replace(ask, completion=EndsTold(self.now(), (end,))))

    def configurer(self, name: str, count: int) -> Client:
        for step in range(count):
            if self.rng.random() < 0.5:
                read = ConfigRead(name, self.number(), self.now(), "plain", "retention.ms")
                yield
                told = self.register
                yield
                self.add(replace(read, completion=ConfigTold(self.now(), told)))
                continue
            write = ConfigWrite(name, self.number(), self.now(), "plain", "retention.ms", f"{name}:{step}")
            yield
            fate = self.rng.random()
            if fate > 0.2:
                self.register = write.value
            yield
            self.add(write if fate < 0.4 else replace(write, completion=Done(self.now())))

    # -- trouble

    def trouble(self, count: int) -> Client:
        for _ in range(count):
            log = self.logs[self.rng.choice(ALL)]
            match self.rng.randrange(6):
                case 0 | 1:
                    fault = Fault("nemesis", self.number(), self.now(), "kill", f"broker {log.leader}")
                    log.elect(self.rng, self.rng.randrange(log.watermark, len(log.records) + 1))
                    yield
                    self.add(replace(fault, completion=Done(self.now())))
                case 2:
                    self.logs[LIMITED].start = self.rng.randrange(
                        self.logs[LIMITED].start, self.logs[LIMITED].watermark + 1
                    )
                case 3:
                    self.logs[COMPACTED].compact(self.rng.choice(BROKERS), self.rng)
                case 4:
                    self.add(LeaderSeen(self.now(), log.partition, log.leader_epoch, log.leader, "nemesis"))
                case 5 if self.has_unclean_elections:
                    election = UncleanElection("operator", self.number(), self.now(), log.partition)
                    yield
                    log.elect(self.rng, self.rng.randrange(log.start, len(log.records) + 1))
                    held = log.leader_epoch
                    yield
                    self.add(replace(election, completion=ElectionHeld(self.now(), held)))
            yield

    # -- the whole of it

    def run(self, length: int) -> History:
        self.add(TopicDeclared(self.now(), "compacted", is_compacted=True))
        self.add(TopicDeclared(self.now(), "limited", is_limited=True))
        clients = [
            self.producer("ann", length),
            self.producer("amy", length),
            self.reader("bob", length),
            self.reader("eve", length // 2),
            self.asker("kim", length // 2),
            self.asker("lee", length // 2),
            self.configurer("max", length // 4),
            self.configurer("mia", length // 4),
            self.trouble(length // 2),
            self.group.member("m1", length),
            self.group.member("m2", length),
            self.group.member("m3", length),
        ]
        while clients:
            client = self.rng.choice(clients)
            try:
                next(client)
            except StopIteration:
                clients.remove(client)
        self._finish()
        return History(self.entries)

    def _finish(self) -> None:
        """All is healed: everything is committed, read, and looked at."""
        self.add(Note(self.now(), "healed"))
        for log in self.logs.values():
            log.commit()
            self.add(LeaderSeen(self.now(), log.partition, log.leader_epoch, log.leader, "nemesis"))
        last, group = Reader(self, "last", None, ALL), self.group
        last_member = Reader(self, "last member", group.name, ALL)
        for partition in ALL:
            last.seek(partition, self.logs[partition].start)
            last_member.seek(partition, group.committed.get(partition, 0))
        for consumer in (last, last_member):
            while any(consumer.positions[partition] < self.logs[partition].watermark for partition in ALL):
                for _ in consumer.poll():
                    pass
        for topic in ("plain", "compacted", "limited"):
            self.add(GroupDrained(self.now(), group.name, topic))
        for log in self.logs.values():
            for broker in BROKERS:
                self.add(self._final(log, broker))

    def _final(self, log: Log, broker: int) -> FinalReplica:
        there = [at for at in range(log.start, len(log.records)) if at not in log.removed[broker]]
        stored = [StoredRecord(at, log.records[at][0], digest_of(log.records[at][1].value)) for at in there]
        is_compacted = log.partition == COMPACTED
        end = len(log.records)
        return FinalReplica(self.now(), log.partition, broker, log.start, end, tuple(stored), is_compacted=is_compacted)


class Reader:
    """A consumer: it fetches ahead, and gives what it has."""

    def __init__(self, cluster: Cluster, name: str, group: str | None, partitions: list[TopicPartition]) -> None:
        self.name = name
        self.positions = dict.fromkeys(partitions, 0)
        self._cluster = cluster
        self._group = group
        self._fetched: dict[TopicPartition, Fetched] = {}
        self._fresh = dict.fromkeys(partitions)
        self._known_cuts: dict[TopicPartition, int] = {}

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self.positions[partition] = offset
        self._known_cuts[partition] = len(self._cluster.logs[partition].cuts)
        self._fresh[partition] = None
        self._fetched.pop(partition, None)

    def drop(self, partition: TopicPartition) -> None:
        self.positions.pop(partition, None)
        self._fetched.pop(partition, None)

    def fetch(self, partition: TopicPartition) -> None:
        if partition in self._fetched or partition not in self.positions:
            return
        log = self._cluster.logs[partition]
        # What it had read may be gone, by an unclean election.
        cuts = log.cuts[self._known_cuts.get(partition, 0) :]
        self.positions[partition] = min(self.positions[partition], log.watermark, *cuts)
        self._known_cuts[partition] = len(log.cuts)
        offsets, after = log.read(self.positions[partition], self._cluster.rng.randrange(1, 6))
        values = [log.records[at][1].value for at in offsets]
        self._fetched[partition] = Fetched(offsets, values, log.leader_epoch, after)

    def poll(self) -> Client:
        cluster = self._cluster
        poll = Poll(self.name, cluster.number(), cluster.now(), self.name, self._group)
        yield
        chosen = [partition for partition in self.positions if cluster.rng.random() < 0.6]
        parts = []
        for partition in chosen:
            before = self.positions[partition]
            self.fetch(partition)
            fetched = self._fetched.pop(partition)
            told = cluster.epoch_told(fetched.leader_epoch)
            is_fresh = partition in self._fresh
            self._fresh.pop(partition, None)
            offsets, values = tuple(fetched.offsets), tuple(fetched.values)
            self.positions[partition] = fetched.after
            part = PolledPartition(partition, offsets, values, before, fetched.after, is_fresh, told)
            if not cluster.has_unclean_elections and cluster.rng.random() < 0.2:
                part = replace(part, before=None)
            parts.append(part)
        cluster.add(replace(poll, completion=Polled(cluster.now(), tuple(parts))))
        yield


class Group:
    """Its coordinator: who has what, in which epoch, and what is committed."""

    def __init__(self, cluster: Cluster) -> None:
        self.name = "billing"
        self.committed: dict[TopicPartition, int] = {}
        self._cluster = cluster
        self._epoch = 1
        self._owners: dict[TopicPartition, str] = {}
        self._members: dict[str, Reader] = {}
        self._dead: dict[str, None] = {}

    def member(self, name: str, count: int) -> Client:
        """A life of it: it may be expelled and not know it, and it may give up all it has when it leaves."""
        cluster, reader = self._cluster, Reader(self._cluster, name, self.name, [])
        self._members[name] = reader
        for _ in range(count):
            if name in self._dead:
                return
            chance = cluster.rng.random()
            if chance < 0.1:
                self._next_epoch()
            elif chance < 0.12 and len(self._members) > 1:
                self._expel(name)
                return
            self._take(name, reader)
            yield
            if chance > 0.9 and reader.positions:
                self._give_up(name, reader, cluster.rng.choice(list(reader.positions)))
            yield from reader.poll()
            if reader.positions and cluster.rng.random() < 0.5:
                yield from self._commit(name, reader)
            if cluster.rng.random() < 0.3:
                yield from self._look(name)
        for partition in list(reader.positions):
            self._give_up(name, reader, partition)
        del self._members[name]

    def _next_epoch(self) -> None:
        self._epoch += 1
        for name in self._members:
            if name not in self._dead:
                self._tell(name)

    def _expel(self, name: str) -> None:
        """It never learns, and its partitions are given to others, in a later epoch."""
        self._dead[name] = None
        del self._members[name]
        self._owners = {partition: owner for partition, owner in self._owners.items() if owner != name}
        self._next_epoch()

    def _take(self, name: str, reader: Reader) -> None:
        for partition in ALL:
            if partition not in self._owners and self._cluster.rng.random() < 0.5:
                self._owners[partition] = name
                reader.seek(partition, self.committed.get(partition, 0))
                self._tell(name, gained=(partition,))

    def _give_up(self, name: str, reader: Reader, partition: TopicPartition) -> None:
        self._tell(name, lost=(partition,))
        reader.drop(partition)
        del self._owners[partition]

    def _tell(self, name: str, gained: tuple[TopicPartition, ...] = (), lost: tuple[TopicPartition, ...] = ()) -> None:
        self._cluster.add(AssignmentChanged(self._cluster.now(), self.name, name, gained, lost, self._epoch))

    def _commit(self, name: str, reader: Reader) -> Client:
        cluster = self._cluster
        offsets = tuple(CommittedOffset(partition, position) for partition, position in reader.positions.items())
        commit = Commit(name, cluster.number(), cluster.now(), self.name, name, offsets)
        yield
        fate = cluster.rng.random()
        if fate > 0.2:
            self.committed |= {one.partition: one.offset for one in offsets}
        yield
        cluster.add(replace(commit, completion=NEVER_RETURNED if fate < 0.4 else Done(cluster.now())))

    def _look(self, name: str) -> Client:
        cluster = self._cluster
        fetch = FetchOffsets(name, cluster.number(), cluster.now(), self.name)
        yield
        offsets = tuple(CommittedOffset(partition, offset) for partition, offset in self.committed.items())
        yield
        cluster.add(replace(fetch, completion=OffsetsFetched(cluster.now(), offsets)))


def good_history(seed: int, *, length: int = 30, has_unclean_elections: bool = False) -> History:
    return Cluster(Random(seed), has_unclean_elections=has_unclean_elections).run(length)
