"""Resolves the anchors of partitions, whose offsets only brokers know, to positions."""

from collections.abc import Mapping

from lograft.clients.cluster.cluster_client import ClusterClient
from lograft.clients.cluster.offset_lookup import AT_TIME, EARLIEST, LATEST, OffsetAnswers, OffsetLookup, OffsetQuestion
from lograft.clients.consumer.reading.fetched_partition import Ago, Anchor, FetchedPartition, Start
from lograft.clients.types import TopicPartition


class PositionLookup:
    def __init__(self, cluster: ClusterClient) -> None:
        self._clock = cluster.runtime.clock
        self._lookup = OffsetLookup(cluster)

    async def settle(self, partitions: Mapping[TopicPartition, FetchedPartition]) -> bool:
        """Ask brokers once, and set the positions of these partitions. Return True if nothing is left to look up."""
        asked = {name: (partition.anchor, partition.generation) for name, partition in partitions.items()}
        anchors = {name: anchor for name, (anchor, _) in asked.items() if anchor is not None}
        answers = await self._ask(partitions, anchors)
        for name, partition in partitions.items():
            if (partition.anchor, partition.generation) != asked[name] or partition.anchor is None:
                continue  # its position was changed meanwhile
            offset = answers.found.get(name)
            if offset is not None:
                partition.found(offset)
            elif name in answers.errors:
                partition.failure = answers.errors[name]
                partition.anchor = None
        return all(name in answers.found or name in answers.errors for name in anchors)

    async def _ask(
        self, partitions: Mapping[TopicPartition, FetchedPartition], anchors: Mapping[TopicPartition, Start]
    ) -> OffsetAnswers:
        # For a search by time, ask for the end first, so that records stored between the requests are not missed.
        answers = await self._lookup.ask(
            {name: self._question(partitions[name], anchor) for name, anchor in anchors.items()}
        )
        times = {name: anchor for name, anchor in anchors.items() if isinstance(anchor, Ago) and name in answers.found}
        if times:
            ends = {name: answers.found.pop(name) for name in times}
            now_ms = self._clock.wall_ms()
            at_times = await self._lookup.ask(
                {
                    name: OffsetQuestion(partitions[name].topic_id, AT_TIME, max(0, now_ms - anchor.duration_ms))
                    for name, anchor in times.items()
                }
            )
            answers.errors.update(at_times.errors)
            for name, offset in at_times.found.items():
                answers.found[name] = ends[name] if offset is None else offset
        return answers

    def _question(self, partition: FetchedPartition, anchor: Start) -> OffsetQuestion:
        return OffsetQuestion(partition.topic_id, EARLIEST if anchor is Anchor.EARLIEST else LATEST)
