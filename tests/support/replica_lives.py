"""The life of one partition on three brokers: the cores of its replicas, and real decisions of the controller.

Everything between them is as late as it likes: each broker's image, what is said on a stream (in order on each, but a
stream that was given up may still deliver), requests to the controller and their answers, which may also be lost while
the request is not. Processes crash and come back with what is durable; disks fail, rot and are wiped, and their oldest
records are deleted.

What must hold: see `Ledger`.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from support.metadata_images import ACTIVE, apply, broker, epoch_of, ids, image_with, partition, topic_id, with_records
from support.replica_logs import Entry, MiniatureDirectory, MiniatureDisks, MiniatureLog

from lograft.broker.following import Acknowledge, Cutting, FollowerCore, GiveUp, Subscribe, Truncate
from lograft.broker.isr import ProposeIsr
from lograft.broker.leading import LeaderCore, LeadersEnds, Subscriber, Subscription
from lograft.broker.matching import Matched, Reset, TruncateTo, match
from lograft.broker.replica_errors import ReplicaError
from lograft.metadata.alter_configs import alter_configs
from lograft.metadata.alter_partition import Alteration, alter_partitions
from lograft.metadata.broker_states import fence, unfence
from lograft.metadata.decision import Decision
from lograft.metadata.elect_leaders import elect_possible, elect_preferred, elect_unclean_leaders
from lograft.metadata.errors import ControllerError
from lograft.metadata.failures import report_failures
from lograft.metadata.image import ClusterImage
from lograft.metadata.log_ends import LogEnd
from lograft.metadata.partition import BrokerEpoch, BrokerId, LeaderEpoch, Partition
from lograft.metadata.records import ConfigResource, FeatureLevelChanged, ResourceKind
from lograft.metadata.registration import Registration, latest_epoch, register
from lograft.metadata.settings import effective_min_isr
from lograft.runtime.rng import Rng
from lograft.storage.epochs import EpochEntry

BROKERS = ids(1, 2, 3)
TOPIC = topic_id(1)
KEY = (TOPIC, 0)
LAG_MS = 10_000
_MOST_IN_A_FRAME = 3

# -- what is said on a stream


@dataclass(frozen=True)
class ToldMatched:
    number: int
    high_watermark: int


@dataclass(frozen=True)
class ToldTruncate:
    number: int
    epoch: int
    end_offset: int


@dataclass(frozen=True)
class ToldReset:
    number: int
    reset: Reset


@dataclass(frozen=True)
class ToldRefused:
    number: int


@dataclass(frozen=True)
class FrameSent:
    number: int
    start: int
    entries: tuple[Entry, ...]
    epochs: tuple[EpochEntry, ...]
    high_watermark: int
    log_start: int


Answer = ToldMatched | ToldTruncate | ToldReset | ToldRefused | FrameSent


@dataclass(eq=False)
class Feed:
    """What a leader's process sends under one subscription that it matched."""

    core: LeaderCore
    subscription: Subscription
    sent_end: int
    sent_watermark: int = -1


@dataclass(eq=False)
class Stream:
    """From a follower's process to a leader's. Given up by the follower, it may still deliver."""

    follower: "Process"
    leader: "Process"
    requests: deque[Subscribe | Acknowledge] = field(default_factory=deque)
    answers: deque[Answer] = field(default_factory=deque)
    directories: dict[int, UUID] = field(default_factory=dict)  # where the replica was, at each subscription
    feeds: dict[int, Feed] = field(default_factory=dict)


@dataclass(eq=False)
class Process:
    """A broker's. `watermark`: what it knows while it neither leads nor follows."""

    broker_id: BrokerId
    epoch: BrokerEpoch
    view: int
    watermark: int
    directories: tuple[UUID, ...]  # that it can use
    core: LeaderCore | FollowerCore | None = None
    stream: Stream | None = None
    cut: Truncate | GiveUp | Reset | None = None
    subscriptions: int = 0
    reported_at: int | None = None  # what is corrupt here, to the controller
    failed: UUID | None = None  # a directory that is not reported yet, or not known to be
    failure_known_at: int | None = None
    is_running: bool = True


@dataclass(eq=False)
class Request:
    """For another ISR. It is answered once it was delivered, and the answer may be lost."""

    process: Process
    core: LeaderCore
    proposal: ProposeIsr
    outcome: Partition | ControllerError | None = None
    is_awaited: bool = True


class Ledger:
    """What was acknowledged: all below the high watermark of any leader, whoever else believed to lead. Whoever is in
    sync or eligible has it, on its disk, at the same offset. And what clients were told by a leader is never more than
    what a later one tells them. Unless an unclean election gave it up."""

    def __init__(self) -> None:
        self.acknowledged: list[Entry] = []
        self.told: dict[LeaderEpoch, tuple[int, int]] = {}

    def risen(self, core: LeaderCore, log: MiniatureLog, unclean_epoch: LeaderEpoch | None) -> None:
        """A leader may tell its high watermark."""
        if core.leader_epoch < (unclean_epoch or 0):
            return
        if core.watermark_is_known:
            least, most = self.told.get(core.leader_epoch, (core.high_watermark, 0))
            assert core.high_watermark >= most, "a watermark went back"
            self.told[core.leader_epoch] = (least, core.high_watermark)
            self._check_told()
        known, start = len(self.acknowledged), log.start_offset
        common = log.entries(start, min(known, core.high_watermark))
        assert common == self.acknowledged[start : start + len(common)], "another record than was acknowledged"
        if core.high_watermark > known:
            assert start <= known
            self.acknowledged += log.entries(known, core.high_watermark)

    def _check_told(self) -> None:
        highest = 0
        for epoch in sorted(self.told):
            least, most = self.told[epoch]
            assert least >= highest, f"clients were told {highest} before epoch {epoch}, and {least} in it"
            highest = max(highest, most)

    def check(self, holder: str, log: MiniatureLog) -> None:
        end = len(self.acknowledged)
        assert log.stable_end >= end, f"{holder} has only {log.stable_end} of {end} acknowledged"
        start = min(log.start_offset, end)
        held = log.entries(start, end) if start >= log.start_offset else []
        assert held == self.acknowledged[start:end], f"{holder} has another record than was acknowledged"

    def given_up(self, log: MiniatureLog) -> None:
        """Only what the elected has, durably, is left."""
        kept = log.start_offset
        for ours, theirs in zip(self.acknowledged[kept:], log.entries(kept, log.stable_end), strict=False):
            if ours != theirs:
                break
            kept += 1
        del self.acknowledged[kept:]
        self.told.clear()


class ReplicaLife:
    """Three replicas; each broker with two directories."""

    def __init__(self) -> None:
        empty = image_with(
            *(broker(number, state=ACTIVE, directories=2) for number in BROKERS),
            topics={"orders": [partition(1, 2, 3)]},
        )
        self.image = with_records(empty, FeatureLevelChanged(1))
        self.history = [self.image]
        self.now_ms = 0
        self.disks = {number: MiniatureDisks(number) for number in BROKERS}
        self.processes = {
            number: Process(number, epoch_of(number), 0, 0, self.image.brokers[number].directories)
            for number in BROKERS
        }
        self.streams: list[Stream] = []
        self.requests: list[Request] = []
        self.ledger = Ledger()
        self._incarnations = 1000
        self._entries_written = 0
        for process in self.processes.values():
            self._take_role(process)

    # -- looking

    @property
    def partition(self) -> Partition:
        return _partition_in(self.image)

    def _known(self, process: Process) -> Partition:
        return _partition_in(self.history[process.view])

    def _used(self, process: Process) -> MiniatureDirectory:
        return self.disks[process.broker_id].used

    def _log(self, process: Process) -> MiniatureLog:
        return self._used(process).log

    def running(self) -> Iterator[Process]:
        return (process for process in self.processes.values() if process.is_running)

    def leaders(self) -> list[tuple[Process, LeaderCore]]:
        """All that believe to lead."""
        return [(process, process.core) for process in self.running() if isinstance(process.core, LeaderCore)]

    def followers(self) -> list[tuple[Process, FollowerCore]]:
        return [(process, process.core) for process in self.running() if isinstance(process.core, FollowerCore)]

    # -- the image of each broker

    def learn(self, broker_id: BrokerId, operations: int) -> None:
        """Or, if it is many, take over a snapshot: it does not see what was in between."""
        process = self.processes[broker_id]
        if process.is_running and process.view < len(self.history) - 1:
            process.view = min(process.view + operations, len(self.history) - 1)
            self._take_role(process)

    def _take_role(self, process: Process) -> None:
        known, image = self._known(process), self.history[process.view]
        assert image.brokers[process.broker_id].epoch == process.epoch, "an image older than the registration"
        if not self._find_place(process, known):
            return
        core, used = process.core, self._used(process)
        if used.is_corrupt and not self._mend(process, known):
            self._resign(process)
        elif core is not None and core.leader_epoch == known.leader_epoch:
            if isinstance(core, LeaderCore):
                core.image_changed(known, effective_min_isr(image, TOPIC, known), self.now_ms)
                self._told(core, process)
            else:
                core.image_changed(known)
        else:
            self._resign(process)
            if known.leader == process.broker_id:
                if known.directory_of(process.broker_id) == used.directory_id:
                    self._lead(process, known, image)
            elif known.leader is not None:
                process.core = FollowerCore(used.log, known, process.watermark)

    def _find_place(self, process: Process, known: Partition) -> bool:
        """In the directory that the metadata name if that is there, else in another, once that is known."""
        disks, named = self.disks[process.broker_id], known.directory_of(process.broker_id)
        if process.failed is not None:
            if process.failure_known_at is None or process.view < process.failure_known_at:
                return False
            process.failed = process.failure_known_at = None
        place = disks.find(named if named in process.directories else process.directories[0])
        assert place is not None
        if place is not disks.used:
            self._resign(process)
            disks.used = place
            process.watermark, process.reported_at = place.watermark, None
        return True

    def _mend(self, process: Process, known: Partition) -> bool:
        """Discard what is corrupt, once that is known and another leads; or live with what is left."""
        own, used, reported_at = process.broker_id, self._used(process), process.reported_at
        if reported_at is None or process.view < reported_at:
            return False
        # Elected in spite of it, not before it: what it said it had then, it had.
        if known.leader == own and known.unclean_epoch == known.leader_epoch:
            used.is_corrupt = known.leader_epoch <= _partition_in(self.history[reported_at]).leader_epoch
            return not used.is_corrupt
        if _counts(known, own) or known.leader in (None, own):
            return False
        used.start_over()
        process.watermark = 0
        return True

    def _resign(self, process: Process) -> None:
        core = process.core
        if core is None:
            return
        process.watermark = core.high_watermark
        if isinstance(core, FollowerCore):
            core.end()
            self._finish_cut(process, core)
            process.watermark = core.high_watermark
            process.stream = None
        process.core = None

    def _lead(self, process: Process, known: Partition, image: ClusterImage) -> None:
        log = self._log(process)
        log.epochs.assign(known.leader_epoch, log.end_offset)
        core = LeaderCore(
            process.broker_id, known, effective_min_isr(image, TOPIC, known),
            LeadersEnds(log.start_offset, log.end_offset, log.end_offset, log.stable_end), process.watermark,
            lag_time_max_ms=LAG_MS, now_ms=self.now_ms,
        )  # fmt: skip
        process.core = core
        self._told(core, process)

    def _told(self, core: LeaderCore, process: Process) -> None:
        assert core.high_watermark <= core.end_offset
        self.ledger.risen(core, self._log(process), self.partition.unclean_epoch)

    # -- leading

    def write(self, which: int, entries: int) -> None:
        if leaders := self.leaders():
            process, core = leaders[which % len(leaders)]
            log = self._log(process)
            for _ in range(entries):
                self._entries_written += 1
                log.append([(core.leader_epoch, self._entries_written)])
            core.appended(log.end_offset, self.now_ms)

    def delete_prefix(self, which: int, part: float) -> None:
        if leaders := self.leaders():
            process, core = leaders[which % len(leaders)]
            log = self._log(process)
            if core.high_watermark > log.start_offset:
                log.delete_prefix(log.start_offset + round((core.high_watermark - log.start_offset) * part))

    def compact(self, broker_id: BrokerId) -> None:
        """Leaders and followers do, each for itself. Nothing is missing here afterwards, but it might."""
        process = self.processes[broker_id]
        if process.is_running and process.core is not None and process.cut is None:
            self._log(process).tombstones_removed_below = process.core.high_watermark

    def send(self, stream_number: int) -> None:
        """What a leader has for its followers on one stream."""
        if self.streams:
            self._send(self.streams[stream_number % len(self.streams)])

    def _send(self, stream: Stream) -> None:
        log = self._log(stream.leader)
        for number, feed in list(stream.feeds.items()):
            if feed.core is not stream.leader.core or feed.subscription.is_over or not stream.leader.is_running:
                del stream.feeds[number]
                stream.answers.append(ToldRefused(number))
                continue
            if feed.sent_end < log.start_offset:
                feed.core.unsubscribed(feed.subscription, self.now_ms)
                continue
            end = min(feed.sent_end + _MOST_IN_A_FRAME, log.end_offset)
            if end > feed.sent_end or feed.core.high_watermark > feed.sent_watermark:
                entries, epochs = log.entries(feed.sent_end, end), log.epochs.between(feed.sent_end, end)
                stream.answers.append(
                    FrameSent(
                        number, feed.sent_end, tuple(entries), tuple(epochs), feed.core.high_watermark, log.start_offset
                    )
                )
                feed.sent_end, feed.sent_watermark = end, feed.core.high_watermark

    def hear_follower(self, stream_number: int) -> None:
        """A leader hears what was said on one stream."""
        if self.streams:
            stream = self.streams[stream_number % len(self.streams)]
            if stream.requests:
                self._hear(stream, stream.requests.popleft())

    def _hear(self, stream: Stream, said: Subscribe | Acknowledge) -> None:
        process, core = stream.leader, stream.leader.core
        if not process.is_running:
            return
        if isinstance(said, Subscribe):
            if not isinstance(core, LeaderCore):
                stream.answers.append(ToldRefused(said.number))
                return
            try:
                self._match(stream, core, said)
            except ReplicaError:
                stream.answers.append(ToldRefused(said.number))
        elif (feed := stream.feeds.get(said.number)) is not None and feed.core is core:
            feed.core.acknowledged(feed.subscription, said.leader_epoch, said.partition_epoch, said.end_offset)
            self._told(feed.core, process)

    def _match(self, stream: Stream, core: LeaderCore, said: Subscribe) -> None:
        follower, log = stream.follower, self._log(stream.leader)
        subscriber = Subscriber(follower.broker_id, follower.epoch, stream.directories[said.number], said.number)
        subscription = core.subscribed(
            subscriber, said.leader_epoch, said.partition_epoch, said.end_offset, self.now_ms
        )
        answer = match(log, log.tombstones_removed_below, said.last_epoch, said.end_offset)
        if isinstance(answer, Matched):
            core.matched(subscription, self.now_ms)
            stream.feeds[said.number] = Feed(core, subscription, said.end_offset)
            stream.answers.append(ToldMatched(said.number, core.high_watermark))
            self._told(core, stream.leader)
            return
        core.unsubscribed(subscription, self.now_ms)
        if isinstance(answer, TruncateTo):
            stream.answers.append(ToldTruncate(said.number, answer.epoch, answer.end_offset))
        else:
            stream.answers.append(ToldReset(said.number, answer))

    # -- following

    def subscribe(self, broker_id: BrokerId) -> None:
        process = self.processes[broker_id]
        core = process.core
        if process.is_running and isinstance(core, FollowerCore) and core.may_subscribe:
            leader = self.processes[core.leader]
            if process.stream is None or process.stream.leader is not leader:
                process.stream = Stream(process, leader)
                self.streams.append(process.stream)
            process.subscriptions += 1
            process.stream.directories[process.subscriptions] = self._used(process).directory_id
            process.stream.requests.append(core.subscribe(process.subscriptions))

    def hear_leader(self, broker_id: BrokerId) -> None:
        process = self.processes[broker_id]
        core, stream = process.core, process.stream
        if not (process.is_running and isinstance(core, FollowerCore) and stream is not None and stream.answers):
            return
        match stream.answers.popleft():
            case ToldMatched(number=number, high_watermark=high_watermark):
                core.matched(number, high_watermark)
            case ToldTruncate(number=number, epoch=epoch, end_offset=end_offset):
                before = core.high_watermark
                process.cut = core.parted(number, epoch, end_offset) or process.cut
                if isinstance(process.cut, Truncate) and process.cut.offset < before:
                    assert core.partition.unclean_epoch is not None, "committed records are cut"
            case ToldReset(number=number, reset=reset):
                if core.told_to_reset(number, reset.start_offset):
                    process.cut = reset
            case ToldRefused(number=number):
                core.unsubscribed(number)
            case FrameSent() as frame:
                self._take(process, core, frame)

    def _take(self, process: Process, core: FollowerCore, frame: FrameSent) -> None:
        log = self._log(process)
        if not core.is_matched(frame.number):
            return
        assert frame.start == log.end_offset, "frames continue the log"
        for entry in core.new_epochs(frame.epochs):
            log.epochs.assign(*entry)
        log.append(list(frame.entries))
        core.appended(frame.high_watermark)
        log.delete_prefix(min(frame.log_start, core.high_watermark))

    def finish_cut(self, broker_id: BrokerId) -> None:
        process = self.processes[broker_id]
        if process.is_running and isinstance(process.core, FollowerCore) and isinstance(process.core.state, Cutting):
            self._finish_cut(process, process.core)

    def _finish_cut(self, process: Process, core: FollowerCore) -> None:
        cut, log = process.cut, self._log(process)
        if cut is None:
            return
        match cut:
            case Truncate(offset=offset):
                log.truncate(offset)
            case GiveUp():
                log.reset(0, ())
            case Reset(start_offset=start_offset, epochs=epochs):
                log.reset(start_offset, epochs)
        process.cut = None
        core.log_was_cut()

    def sync(self, broker_id: BrokerId, part: float) -> None:
        process = self.processes[broker_id]
        if process.is_running and process.core is not None and process.cut is None:
            log = self._log(process)
            log.sync(log.stable_end + round((log.end_offset - log.stable_end) * part))
            if isinstance(process.core, LeaderCore):
                process.core.own_durable(log.stable_end)
                self._told(process.core, process)

    def acknowledge(self, broker_id: BrokerId) -> None:
        process = self.processes[broker_id]
        if process.is_running and isinstance(process.core, FollowerCore) and process.stream is not None:
            said = process.core.acknowledgement()
            if said is not None:
                process.stream.requests.append(said)

    def keep_up(self, broker_id: BrokerId) -> None:
        """For once nothing is late between a follower and its leader."""
        process = self.processes[broker_id]
        self.finish_cut(broker_id)
        self.sync(broker_id, 1.0)
        self.subscribe(broker_id)
        stream = process.stream
        if process.is_running and stream is not None:
            self._pass_on(stream)
            while stream.answers and process.stream is stream:
                self.hear_leader(broker_id)
            self.sync(broker_id, 1.0)
            self.acknowledge(broker_id)
            self._pass_on(stream)

    def _pass_on(self, stream: Stream) -> None:
        while stream.requests:
            self._hear(stream, stream.requests.popleft())
        self._send(stream)

    def break_stream(self, broker_id: BrokerId) -> None:
        """The follower gives it up."""
        process = self.processes[broker_id]
        if process.is_running and isinstance(process.core, FollowerCore) and process.stream is not None:
            process.core.unsubscribed(process.subscriptions)
            process.stream = None

    def lose_stream(self, stream_number: int) -> None:
        """What is still under way on it is lost; the leader gives it up."""
        if self.streams:
            stream = self.streams.pop(stream_number % len(self.streams))
            if stream.follower.stream is stream:
                self.break_stream(stream.follower.broker_id)
            for feed in stream.feeds.values():
                if feed.core is stream.leader.core:
                    feed.core.unsubscribed(feed.subscription, self.now_ms)

    # -- the ISR

    def propose(self, which: int) -> None:
        if leaders := self.leaders():
            process, core = leaders[which % len(leaders)]
            proposal = core.propose(self.history[process.view].brokers, self.now_ms)
            if proposal is not None:
                self.requests.append(Request(process, core, proposal))
            self._told(core, process)

    def deliver_request(self, which: int) -> None:
        waiting = [request for request in self.requests if request.outcome is None]
        if waiting:
            self._deliver(waiting[which % len(waiting)])

    def _deliver(self, request: Request) -> None:
        process, proposal = request.process, request.proposal
        asked = Alteration(*KEY, proposal.leader_epoch, proposal.partition_epoch, proposal.isr)
        try:
            decision = alter_partitions(self.image, process.broker_id, process.epoch, [asked])
        except ControllerError as error:
            request.outcome = error
        else:
            request.outcome = decision.answer[0].outcome
            self.carry_out(decision)
        self._forget_settled()

    def answer_request(self, which: int) -> None:
        answered = [request for request in self.requests if request.outcome is not None]
        if answered:
            self._answer(answered[which % len(answered)])

    def _answer(self, request: Request) -> None:
        request.is_awaited = False
        core, outcome = request.core, request.outcome
        if isinstance(outcome, ControllerError):
            core.alteration_refused(request.proposal, self.now_ms)
        elif outcome is not None:
            core.alteration_accepted(request.proposal, outcome.partition_epoch, self.now_ms)
        if request.process.core is core and request.process.is_running:
            self._told(core, request.process)
        self._forget_settled()

    def lose_answer(self, which: int) -> None:
        """The leader waits no longer. The request may be delivered yet."""
        awaited = [request for request in self.requests if request.is_awaited]
        if awaited:
            request = awaited[which % len(awaited)]
            request.is_awaited = False
            request.core.alteration_unknown(request.proposal, self.now_ms)
            self._forget_settled()

    def _forget_settled(self) -> None:
        self.requests = [one for one in self.requests if one.is_awaited or one.outcome is None]

    def pass_time(self, milliseconds: int) -> None:
        self.now_ms += milliseconds

    # -- what happens to brokers

    def note_watermark(self, broker_id: BrokerId) -> None:
        process = self.processes[broker_id]
        if process.is_running:
            core = process.core
            self._used(process).noted_watermark = core.high_watermark if core is not None else process.watermark

    def crash(self, broker_id: BrokerId, seed: int) -> None:
        process, rng = self.processes[broker_id], Rng(seed)
        if process.is_running:
            process.is_running = False
            if isinstance(process.core, FollowerCore) and rng.random() < 0.5:
                self._finish_cut(process, process.core)
            process.core = process.stream = None
            self.disks[broker_id].crash(rng)

    def start(self, broker_id: BrokerId, is_wiped: bool = False, has_all: bool = True) -> None:
        """`has_all`: with both directories; else one is away."""
        process, disks = self.processes[broker_id], self.disks[broker_id]
        if process.is_running:
            return
        if is_wiped:
            disks.wipe()
        directories = tuple(one.directory_id for one in disks.directories if has_all or one is not disks.used)
        self._incarnations += 1
        decision = register(
            self.image,
            Registration(
                broker_id, UUID(int=self._incarnations), f"broker-{broker_id}:9092", None, directories,
                f"boot-{self._incarnations}", None, 1, 1,
            ),
            previous_epoch=latest_epoch(self.image, broker_id),
            is_old_alive=False,
        )  # fmt: skip
        self.carry_out(decision)
        self.processes[broker_id] = Process(
            broker_id, decision.answer, len(self.history) - 1, disks.used.watermark, directories
        )
        self._take_role(self.processes[broker_id])

    def find_corrupt(self, broker_id: BrokerId, seed: int) -> None:
        process = self.processes[broker_id]
        used = self._used(process)
        if process.is_running and not used.is_corrupt and process.failed is None:
            self._resign(process)
            process.reported_at = None
            used.rot(Rng(seed))

    def report_corrupt(self, broker_id: BrokerId) -> None:
        """If that is not known, as far as it can see."""
        process = self.processes[broker_id]
        is_told = process.reported_at is not None and not _counts(self._known(process), broker_id)
        if process.is_running and process.failed is None and self._used(process).is_corrupt and not is_told:
            with suppress(ControllerError):
                self.carry_out(report_failures(self.image, broker_id, process.epoch, [], [KEY]))
                process.reported_at = len(self.history) - 1
                if process.view >= process.reported_at:
                    self._take_role(process)

    def lose_directory(self, broker_id: BrokerId) -> None:
        """That which it uses, if it has another. It may be back with a later process."""
        process = self.processes[broker_id]
        if process.is_running and process.failed is None and len(process.directories) > 1:
            self._resign(process)
            process.failed = self._used(process).directory_id
            process.directories = tuple(one for one in process.directories if one != process.failed)

    def report_failure(self, broker_id: BrokerId) -> None:
        process = self.processes[broker_id]
        if process.is_running and process.failed is not None and process.failure_known_at is None:
            with suppress(ControllerError):
                self.carry_out(report_failures(self.image, broker_id, process.epoch, [process.failed], []))
                process.failure_known_at = len(self.history) - 1

    def fence(self, broker_id: BrokerId) -> None:
        self.carry_out(fence(self.image, broker_id, self.image.brokers[broker_id].epoch))

    def unfence(self, broker_id: BrokerId) -> None:
        """It has recovered its logs, and reported those that it could not."""
        process = self.processes[broker_id]
        if process.is_running and not (self._used(process).is_corrupt and process.reported_at is None):
            self.carry_out(unfence(self.image, broker_id, process.epoch))

    # -- what operators ask for

    def set_min_isr(self, value: str | None) -> None:
        resource = ConfigResource(ResourceKind.TOPIC, str(TOPIC))
        with suppress(ControllerError):
            self.carry_out(alter_configs(self.image, resource, {"min.insync.replicas": value}))

    def elect_preferred(self) -> None:
        self.carry_out(elect_preferred(self.image, None))

    def elect_uncleanly(self) -> None:
        ends = {}
        for process in self.running():
            known = self._known(process)
            is_named = known.directory_of(process.broker_id) == self._used(process).directory_id
            if known.leader_epoch == self.partition.leader_epoch and known.leader is None and is_named:
                log = self._log(process)
                last = log.epochs.latest.epoch if log.epochs.latest is not None else -1
                ends[process.broker_id] = LogEnd(process.epoch, LeaderEpoch(last), log.end_offset)
        self.carry_out(elect_unclean_leaders(self.image, [KEY], {KEY: ends}))

    # -- the controller

    def carry_out(self, decision: Decision[Any]) -> None:
        if not decision.records:
            return
        before = self.partition
        self.image = apply(self.image, decision)
        self.history.append(self.image)
        if self.partition.unclean_epoch != before.unclean_epoch:
            assert self.partition.leader is not None
            elected = self.disks[self.partition.leader].find(self.partition.directory_of(self.partition.leader))
            assert elected is not None
            self.ledger.given_up(elected.log)

    def check(self) -> None:
        """Whoever may be elected cleanly has everything acknowledged."""
        now = self.partition
        claims = [one for one in now.replicas if one.broker_id in now.isr] + list(now.elr)
        for replica in claims:
            holder = self.disks[replica.broker_id].find(replica.directory_id)
            if holder is not None and not holder.is_corrupt:
                self.ledger.check(f"broker {replica.broker_id}", holder.log)
        for process in self.running():
            if process.core is not None and process.cut is None:
                assert process.core.high_watermark <= self._log(process).end_offset

    # -- when all is well again

    def get_well(self, there: tuple[BrokerId, ...]) -> bool:
        """For long enough that nothing is left to be done. If what was acknowledged is lost, that is accepted. False:
        nobody has any of the directories that the metadata name."""
        for broker_id in there:
            if len(self.processes[broker_id].directories) < 2:
                self.crash(broker_id, 0)  # it is started again, with both
        for _ in range(2):
            for _ in range(15):
                self.run_well(there)
            if self.partition.leader is not None:
                return True
            self.elect_uncleanly()
        assert not any(self.disks[one].find(self.partition.directory_of(one)) for one in there)
        return False

    def run_well(self, there: tuple[BrokerId, ...] = BROKERS) -> None:
        """Nothing is late or lost for a second, and these brokers run."""
        for broker_id in there:
            self.start(broker_id)
            self.report_failure(broker_id)
            self.report_corrupt(broker_id)
            self.unfence(broker_id)
        self.carry_out(elect_possible(self.image))
        self.pass_time(1000)
        for _ in range(3):
            self._run_once(there)
            self.check()

    def _run_once(self, there: tuple[BrokerId, ...]) -> None:
        for request in list(self.requests):
            if request.outcome is None:
                self._deliver(request)
            if request.is_awaited:
                self._answer(request)
        for broker_id in there:
            self.learn(broker_id, len(self.history))
            self.finish_cut(broker_id)
            self.sync(broker_id, 1.0)
            self.subscribe(broker_id)
            self.acknowledge(broker_id)
        for stream in self.streams:
            self._pass_on(stream)
        for broker_id in there:
            stream_of = self.processes[broker_id].stream
            while stream_of is not None and stream_of.answers and self.processes[broker_id].stream is stream_of:
                self.hear_leader(broker_id)
        for which in range(len(self.leaders())):
            self.propose(which)


def _counts(known: Partition, broker_id: BrokerId) -> bool:
    return broker_id in known.isr or known.is_eligible(broker_id)


def _partition_in(image: ClusterImage) -> Partition:
    found = image.partition(*KEY)
    assert found is not None
    return found
