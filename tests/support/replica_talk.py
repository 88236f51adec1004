"""What the leaders and followers of one partition do with their logs and say to each other; all of it may be late."""

from support.replica_processes import (
    Barrier,
    BarrierAnswered,
    BarrierSent,
    Feed,
    FrameSent,
    Process,
    Stream,
    ToldMatched,
    ToldRefused,
    ToldReset,
    ToldTruncate,
)
from support.replica_views import ReplicaViews

from lograft.broker.replication.follower_core import Acknowledge, Cutting, FollowerCore, Subscribe, Truncate
from lograft.broker.replication.leader_core import LeaderCore, Subscriber
from lograft.broker.replication.log_matching import Prefix, TruncateTo, match
from lograft.metadata.image.partition import BrokerId
from lograft.rpc.coded_error import ReplicaError

_MOST_IN_A_FRAME = 3


class ReplicaTalk(ReplicaViews):
    """Leaders write and feed, followers subscribe and acknowledge."""

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

    def ask_barrier(self, which: int) -> None:
        """Whoever believes to lead wants to know whether it does."""
        if leaders := self.leaders():
            process, core = leaders[which % len(leaders)]
            self.barriers.append(Barrier(process, core, core.ask_barrier(), self.led))
            self._look_at_barriers()

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
            if feed.core.barrier > feed.sent_barrier:
                feed.sent_barrier = feed.core.tell_barrier()
                stream.answers.append(BarrierSent(number, feed.sent_barrier))

    def hear_follower(self, stream_number: int) -> None:
        """A leader hears what was said on one stream."""
        if self.streams:
            stream = self.streams[stream_number % len(self.streams)]
            if stream.requests:
                self._hear(stream, stream.requests.popleft())

    def _hear(self, stream: Stream, said: Subscribe | Acknowledge | BarrierAnswered) -> None:
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
            return
        feed = stream.feeds.get(said.number)
        if feed is None or feed.core is not core:
            return
        if isinstance(said, BarrierAnswered):
            feed.core.barrier_answered(feed.subscription, said.leader_epoch, said.barrier)
            self._look_at_barriers()
        else:
            feed.core.acknowledged(feed.subscription, said.leader_epoch, said.partition_epoch, said.end_offset)
            self._told(feed.core, process)

    def _match(self, stream: Stream, core: LeaderCore, said: Subscribe) -> None:
        follower, log = stream.follower, self._log(stream.leader)
        subscriber = Subscriber(follower.broker_id, follower.epoch, stream.directories[said.number], said.number)
        subscription = core.subscribed(
            subscriber, said.leader_epoch, said.partition_epoch, said.end_offset, self.now_ms
        )
        answer = match(log, log.tombstones_removed_below, said.last_epoch, said.end_offset)
        if isinstance(answer, Prefix):
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
            case BarrierSent(number=number, barrier=barrier):
                if core.is_matched(number):
                    stream.requests.append(BarrierAnswered(number, core.leader_epoch, barrier))

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
