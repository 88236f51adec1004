"""A streaming query's offsets in its checkpoint: JSON that includes topic ids. Pure.

{"source": "0b6c…", "topics": {"orders": {"id": "c1a4…", "offsets": {"0": 23, "1": 5}}}}

`source` is generated with the first offset of a query, and stays the same as long as its checkpoint does.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from lograft.clients.errors import InvalidArgument, UnknownTopicId
from lograft.clients.types import TopicPartition


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """The next offset of each partition, and the ids of their topics."""

    source: str
    topic_ids: Mapping[str, UUID]
    offsets: Mapping[TopicPartition, int]

    def to_json(self) -> dict[str, Any]:
        topics: dict[str, Any] = {}
        for partition in sorted(self.offsets):
            topic = topics.setdefault(partition.topic, {"id": self.topic_ids[partition.topic].hex, "offsets": {}})
            topic["offsets"][str(partition.partition)] = self.offsets[partition]
        return {"source": self.source, "topics": topics}

    def first_of(self, partition: TopicPartition) -> int:
        """Return where to begin: a new partition is read from its beginning."""
        return self.offsets.get(partition, 0)

    def check_same_topics(self, now: Mapping[str, UUID]) -> None:
        """Raise `UnknownTopicId` if a topic was recreated."""
        for topic, topic_id in self.topic_ids.items():
            if topic in now and now[topic] != topic_id:
                raise UnknownTopicId(
                    f"topic {topic!r} was deleted and created again since the query's checkpoint was made: its offsets "
                    "mean nothing in the new one; start the query with a new checkpoint"
                )


def read_offset(content: Any) -> StreamOffset:
    """Parse an offset. Raise `InvalidArgument` for anything else."""
    try:
        topics = content["topics"]
        topic_ids = {name: UUID(hex=topic["id"]) for name, topic in topics.items()}
        offsets = {
            TopicPartition(name, int(number)): _offset(offset)
            for name, topic in topics.items()
            for number, offset in topic["offsets"].items()
        }
        return StreamOffset(str(content["source"]), topic_ids, offsets)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidArgument(
            f"the checkpoint has an offset that is not lograft's ({error!r}): is it another query's checkpoint?"
        ) from None


def _offset(offset: Any) -> int:
    if not isinstance(offset, int) or offset < 0:
        raise ValueError(f"{offset!r} is no offset")
    return offset


def limited(
    start: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int], max_offsets: int | None
) -> dict[TopicPartition, int]:
    """Return `latest`, or earlier ends so that there are `max_offsets` after `start`, shared in proportion to what each
    partition has.

    Partitions that are not in `start` begin at 0. One that ends before its start has lost records: it moves back to its
    end regardless of the limit, or the query would skip the next records stored there.
    """
    sizes = {partition: max(end - start.get(partition, 0), 0) for partition, end in latest.items()}
    total = sum(sizes.values())
    if max_offsets is None or total <= max_offsets:
        return dict(latest)
    shares = {partition: size * max_offsets // total for partition, size in sizes.items()}
    # Distribute the remainder to the partitions with the largest rounding loss.
    by_loss = sorted(sizes, key=lambda partition: (-(sizes[partition] * max_offsets % total), partition))
    for partition in by_loss[: max_offsets - sum(shares.values())]:
        shares[partition] += 1
    return {partition: min(start.get(partition, 0), end) + shares[partition] for partition, end in latest.items()}
