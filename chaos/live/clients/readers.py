"""Consumers of a live cluster, alone or as members of a group. They record everything they receive."""

import asyncio
from collections.abc import Iterable, Mapping

from lograft.chaos.history.entries import AssignmentChanged, Commit, CommittedOffset, Poll, Polled, PolledPartition
from lograft.chaos.history.recorder import Recorder
from lograft.chaos.live.clients.base import Place, pause, value_of
from lograft.clients.consumer.aio_consumer import Consumer
from lograft.clients.consumer.group.rebalance_listener import RebalanceListener
from lograft.clients.errors import LograftError
from lograft.clients.types import TopicPartition
from lograft.runtime.rng import Rng
from lograft.storage.batch.codec import Record

_POLL_SECONDS = 0.5
_AFTER_ERROR_MS = 200
_COMMIT_PROBABILITY = 0.3


class Polling:
    """The polls of one consumer, in sequence."""

    def __init__(self, recorder: Recorder, consumer: Consumer, group: str | None = None) -> None:
        self.consumer = consumer
        self.fresh: dict[TopicPartition, None] = {}  # assigned or sought since the last poll
        self.after: dict[TopicPartition, int] = {}  # the position in each assigned partition
        self._recorder = recorder
        self._group = group

    async def poll(self) -> None:
        """Poll once. Record an error of the client instead of raising it."""
        recorder = self._recorder
        async with recorder.doing(Poll, consumer=recorder.process, group=self._group) as pending:
            records = await self.consumer.poll(_POLL_SECONDS)
            pending.completion = Polled(recorder.now(), tuple(self._parts(records)))

    def _parts(self, records: Iterable[Record]) -> Iterable[PolledPartition]:
        given: dict[TopicPartition, list[Record]] = {}
        for record in records:
            given.setdefault(TopicPartition(record.topic, record.partition), []).append(record)
        positions = {name: position.offset for name, position in self.consumer._reader.positions().items()}
        for name in sorted({*given, *positions}):
            some = given.get(name, [])
            # A member that loses a partition and regains it within a poll starts at the group's offset, not at its own.
            is_fresh = name in self.fresh or name not in self.after
            yield PolledPartition(
                name,
                tuple(record.offset for record in some),
                tuple(map(value_of, some)),
                before=None if is_fresh else self.after[name],
                after=positions.get(name),
                is_fresh=is_fresh,
            )
        self.fresh.clear()
        self.after = positions


class Reader:
    """Reads all partitions of the topic from the beginning, poll after poll."""

    def __init__(self, recorder: Recorder, place: Place) -> None:
        self.recorder = recorder
        self.positions: Mapping[TopicPartition, int] = {}
        self._place = place

    async def run(self, ending: asyncio.Event) -> None:
        async with Consumer(self._place.bootstrap, auto_offset_reset="earliest") as consumer:
            polling = Polling(self.recorder, consumer)
            while not ending.is_set() and not await self._assign(consumer):
                await pause(ending, _AFTER_ERROR_MS)
            while not ending.is_set():
                await polling.poll()
                self.positions = polling.after

    async def _assign(self, consumer: Consumer) -> bool:
        try:
            await consumer.assign(await consumer.partitions_for(self._place.topic))
        except LograftError:
            return False
        return True


class Member(RebalanceListener):
    """A member of a group, which occasionally commits its positions."""

    def __init__(self, recorder: Recorder, place: Place, group: str, rng: Rng, session_ms: int) -> None:
        self.recorder = recorder
        self._session_ms = session_ms
        self._place = place
        self._group = group
        self._rng = rng
        self._polling: Polling | None = None
        self._owned: dict[TopicPartition, None] = {}
        self._consumer: Consumer | None = None
        self._epoch: int | None = None

    async def run(self, ending: asyncio.Event) -> None:
        async with Consumer(
            self._place.bootstrap,
            group=self._group,
            auto_offset_reset="earliest",
            auto_commit=False,
            session_timeout_ms=self._session_ms,
        ) as consumer:
            self._consumer = consumer
            polling = self._polling = Polling(self.recorder, consumer, self._group)
            while not ending.is_set() and not await self._subscribe(consumer):
                await pause(ending, _AFTER_ERROR_MS)
            while not ending.is_set():
                await polling.poll()
                if self._epoch_now() != self._epoch:
                    self._tell()
                if self._rng.random() < _COMMIT_PROBABILITY:
                    await self._commit(consumer)

    @property
    def positions(self) -> Mapping[TopicPartition, int]:
        """Its positions in the partitions it owns."""
        after = {} if self._polling is None else self._polling.after
        return {name: offset for name, offset in after.items() if name in self._owned}

    async def _subscribe(self, consumer: Consumer) -> bool:
        try:
            await consumer.subscribe([self._place.topic], self)
        except LograftError:
            return False
        return True

    async def _commit(self, consumer: Consumer) -> None:
        offsets = dict(self.positions)
        if not offsets:
            return
        told = tuple(CommittedOffset(name, offset) for name, offset in sorted(offsets.items()))
        async with self.recorder.doing(Commit, group=self._group, member=self.recorder.process, offsets=told):
            await consumer.commit(offsets)

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        self._owned |= dict.fromkeys(partitions)
        assert self._polling is not None
        self._polling.fresh |= dict.fromkeys(partitions)
        self._tell(gained=tuple(partitions))

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        for name in partitions:
            self._owned.pop(name, None)
        self._tell(lost=tuple(partitions))

    def _epoch_now(self) -> int | None:
        """Return the epoch of its assignment, or None if it has none."""
        session = None if self._consumer is None else self._consumer._group
        return session.epoch if session is not None and session.epoch > 0 else None

    def _tell(self, gained: tuple[TopicPartition, ...] = (), lost: tuple[TopicPartition, ...] = ()) -> None:
        self._epoch = self._epoch_now()
        self.recorder.happened(
            AssignmentChanged,
            group=self._group,
            member=self.recorder.process,
            gained=gained,
            lost=lost,
            epoch=self._epoch,
        )
