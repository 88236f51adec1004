"""Read for `lograft consume`: by a plan, or as a member of a group."""

from collections.abc import Mapping, Sequence

from lograft.cli.output.progress import ProgressLine
from lograft.cli.records.consume_plan import Plan
from lograft.cli.records.record_output import RecordWriter
from lograft.clients.consumer.sync_consumer import Consumer
from lograft.clients.types import TopicPartition
from lograft.storage.batch.codec import Record

_POLL_SECONDS = 1.0
_AT_ONCE = 5000  # records written together, to amortise the cost per write


def read(consumer: Consumer, plan: Plan, writer: RecordWriter, progress: ProgressLine, max_records: int | None) -> None:
    """Write all records of the plan in order of arrival."""
    unfinished = {name for name, start in plan.starts.items() if start < plan.ends.get(name, start + 1)}
    reached = dict(plan.starts)  # the offset after the last record read
    consumer.assign(sorted(unfinished))
    for name in unfinished:
        consumer.seek(name, plan.starts[name])
    written, total = 0, plan.total
    while unfinished:
        records: Sequence[Record] = consumer.poll(_POLL_SECONDS, _AT_ONCE)
        is_all_there_was = len(records) < _AT_ONCE
        ends_here = ends_of(records)
        reached.update(ends_here)
        if any(end > plan.ends.get(name, end) for name, end in ends_here.items()):
            records = before(plan.ends, records)
        records = records[: None if max_records is None else max_records - written]
        writer.write(records)
        written += len(records)
        progress.tick(written, _share(plan, reached, total))
        if written == max_records:
            return
        if is_all_there_was:
            # The last offsets of a compacted partition may be empty.
            writer.check_reader()
            reached.update({name: consumer.position(name) for name in unfinished if name in plan.ends})
        done = {name for name in unfinished if reached[name] >= plan.ends.get(name, reached[name] + 1)}
        if done:
            unfinished -= done
            consumer.assign(sorted(unfinished))


def ends_of(records: Sequence[Record]) -> dict[TopicPartition, int]:
    """Return the offset after the last record of each partition."""
    last = {record[:2]: record[2] for record in records}
    return {TopicPartition(*name): offset + 1 for name, offset in last.items()}


def before(ends: Mapping[TopicPartition, int], records: Sequence[Record]) -> Sequence[Record]:
    """Return the records before the end of their partition, if it has one."""
    return [record for record in records if record[2] < ends.get(TopicPartition(*record[:2]), record[2] + 1)]


def _share(plan: Plan, reached: Mapping[TopicPartition, int], total: int | None) -> float | None:
    if not total:
        return None
    return sum(reached[name] - start for name, start in plan.starts.items()) / total


def read_as_member(
    consumer: Consumer,
    topics: Sequence[str],
    writer: RecordWriter,
    progress: ProgressLine,
    max_records: int | None,
    *,
    exits: bool,
) -> None:
    """Write records assigned by the group, and commit them once written, unless the output is closed."""
    names = [name for topic in topics for name in consumer.partitions_for(topic)]
    ends = consumer.end_offsets(names) if exits else {}
    consumer.subscribe(topics)
    written = 0
    while written != max_records:
        limit = _AT_ONCE if max_records is None else min(_AT_ONCE, max_records - written)
        records = consumer.poll(_POLL_SECONDS, limit)
        writer.write(records)
        writer.check_reader()
        if records:
            consumer.commit()
        written += len(records)
        progress.tick(written)
        if exits and _is_through(consumer, ends):
            return


def _is_through(consumer: Consumer, ends: Mapping[TopicPartition, int]) -> bool:
    """Whether this member has read everything that existed at the start."""
    assigned = consumer.assignment()
    if assigned:
        return all(consumer.position(name) >= ends.get(name, 0) for name in assigned)
    # Without an assignment, this member may still get partitions, so the group's progress counts.
    committed = consumer.committed(ends)
    return all((committed[name] or 0) >= end for name, end in ends.items())
