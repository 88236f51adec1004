"""Converts a simulated run to the history of a live cluster, for its checkers in `chaos.checkers`. Pure.

The history also states facts that those checkers cannot observe: which topics were deleted and may have no final logs;
where logs were seen to start; when an unclean election began, and until when earlier leaders may have answered.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from uuid import UUID

from lograft.broker.replica.interfaces import Acks
from lograft.chaos.cluster.checks.history import ClusterHistory, FinalPartition, PartitionKey, SentRecord
from lograft.chaos.cluster.clients.poll_recorder import partition_name
from lograft.chaos.cluster.world.record_marks import is_deletion, record_key_of
from lograft.chaos.harness.outcome import Outcome
from lograft.chaos.history import entries as live
from lograft.chaos.history.entries import Entry, Moment
from lograft.chaos.history.history import History
from lograft.clients.types import TopicPartition

_NOWHERE = "(not taken)"
_BEFORE_IT_IS_SEEN_US = 1_000_000  # an election is seen once it is committed, and has no effect before that

Naming = Callable[[PartitionKey], TopicPartition]


def live_history(
    history: ClusterHistory,
    partitions: Mapping[PartitionKey, FinalPartition],
    now_us: int,
    internal_topics: Mapping[UUID, str],
) -> History:
    """Convert `history`. `partitions` holds the final partitions inspected so far; `internal_topics`, names by id."""

    def name_of(key: PartitionKey) -> TopicPartition:
        internal = internal_topics.get(key[0])
        return TopicPartition(internal, key[1]) if internal is not None else partition_name(key)

    now = Moment(now_us)
    return History(
        [
            *history.entries,
            *(_sent(send, number) for number, send in enumerate(history.sends.values())),
            *_refused(history),
            *_asked(history),
            *_seen(history, name_of),
            *_elections(history, name_of, now),
            *_declared(history, partitions),
            *_final(history, partitions, now),
        ]
    )


def _sent(send: SentRecord, number: int) -> live.Send:
    topic, partition = partition_name(send.key)
    mark = send.value
    return live.Send(
        process="senders",
        number=number,
        invoked=Moment(send.invoked_us),
        topic=topic,
        value=mark.decode(),
        producer=send.producer,
        sequence=send.number,
        partition_asked=partition,
        key=record_key_of(mark).decode(),
        deletes=is_deletion(mark),
        acks=send.acks,
        completion=_fate(send, partition),
    )


def _fate(send: SentRecord, partition: int) -> live.Acknowledged | live.Failed | live.Unknown:
    at = Moment(send.settled_us) if send.settled_us is not None else None
    if at is None or send.outcome is Outcome.UNKNOWN:
        return live.Unknown(at, message=send.error)
    if send.outcome is Outcome.FAIL:
        return live.Failed(at, "refused", send.error)
    return live.Acknowledged(at, partition, send.offset, leader_epoch=send.leader_epoch)


def _refused(history: ClusterHistory) -> Iterator[live.Send]:
    """Yield records that no producer accepted. The topics they would have gone to are unknown."""
    for number, (mark, error) in enumerate(history.refused.items()):
        sender, sequence, *_ = mark.decode().split("/")
        yield live.Send(
            "refused", number, Moment(0), _NOWHERE, mark.decode(), sender, int(sequence),
            completion=live.Failed(Moment(0), "refused", error),
        )  # fmt: skip


def _asked(history: ClusterHistory) -> Iterator[live.AskEnds]:
    """Yield each call as one of its own client: askers call any broker, including former leaders."""
    for number, told in enumerate(history.told):
        end = live.ToldEnd(partition_name(told.key), told.watermark, told.leader_epoch)
        completion = live.EndsTold(Moment(told.told_us), (end,))
        yield live.AskEnds("askers", number, Moment(told.asked_us), f"call {number}", completion)


def _seen(history: ClusterHistory, name_of: Naming) -> Iterator[Entry]:
    for (key, leader_epoch, broker), at_us in history.leaders_seen_us.items():
        yield live.LeaderSeen(Moment(at_us), name_of(key), leader_epoch, broker, f"broker {broker}")
    for key, start in history.starts.items():
        yield live.StartSeen(Moment(0), name_of(key), start)


def _elections(history: ClusterHistory, name_of: Naming, now: Moment) -> Iterator[live.UncleanElection]:
    """Yield unclean elections. Earlier leaders may keep answering until they learn of one."""
    end = Moment(history.settled_us) if history.settled_us is not None else now
    numbers = count()
    for (key, leader_epoch), at_us in history.unclean_seen_us.items():
        begin = Moment(max(0, at_us - _BEFORE_IT_IS_SEEN_US))
        held = live.ElectionHeld(max(end, begin), leader_epoch)
        yield live.UncleanElection("elections", next(numbers), begin, name_of(key), held)


def _declared(history: ClusterHistory, partitions: Mapping[PartitionKey, FinalPartition]) -> Iterator[Entry]:
    compacted, limited = history.compacted_topics, history.limited_topics
    for topic_id in dict.fromkeys([*compacted, *limited]):
        topic = partition_name((topic_id, 0)).topic
        yield live.TopicDeclared(Moment(0), topic, topic_id in compacted, topic_id in limited)
    left = {topic_id: None for topic_id, _ in partitions}
    for topic_id, at_us in history.deleted_topics_us.items():
        if topic_id not in left:  # it may not have been carried out
            yield live.TopicDeleted(Moment(at_us), partition_name((topic_id, 0)).topic)


def _final(
    history: ClusterHistory, partitions: Mapping[PartitionKey, FinalPartition], now: Moment
) -> Iterator[live.FinalReplica]:
    for key, final in partitions.items():
        for broker, log in final.logs.items():
            stored = [
                live.StoredRecord(one.offset, one.leader_epoch, live.digest_of(one.value.decode()))
                for one in log.records
            ]
            yield live.FinalReplica(
                now, partition_name(key), broker, log.start_offset, log.end_offset, tuple(stored),
                is_compacted=key[0] in history.compacted_topics, leader_epoch=final.leader_epoch,
            )  # fmt: skip


def judged(history: History) -> Counter[str]:
    """Count the entries for the checkers, by descriptive names."""
    found: Counter[str] = Counter()
    for entry in history.entries:
        match entry:
            case live.Send(completion=live.Acknowledged(), acks=Acks.ALL):
                found["records acknowledged by all in sync"] += 1
            case live.Send(completion=live.Acknowledged()):
                found["records acknowledged by less"] += 1
            case live.Send(completion=live.Failed()):
                found["records that failed for certain"] += 1
            case live.Send():
                found["records of unknown fate"] += 1
            case live.Poll(completion=live.Polled(parts=parts)):
                found["polls"] += 1
                found["records read"] += sum(len(part.offsets) for part in parts)
            case live.AskEnds():
                found["watermarks told"] += 1
            case live.ConfigWrite() | live.ConfigRead():
                found["reads and writes of settings"] += 1
            case live.Commit():
                found["commits of groups"] += 1
            case live.FetchOffsets():
                found["committed offsets asked for"] += 1
            case live.AssignmentChanged():
                found["changes of assignments"] += 1
            case live.LeaderSeen():
                found["leader epochs"] += 1
            case live.UncleanElection():
                found["unclean elections"] += 1
            case live.FinalReplica(records=records):
                found["replicas compared"] += 1
                found["records in replicas"] += len(records)
    return found
