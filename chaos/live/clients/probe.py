"""Queries a live cluster for partition ends, leaders and committed offsets. Also reads and writes a setting, which has
to behave like a single register."""

import asyncio

from lograft.chaos.history.entries import (
    AskEnds,
    CommittedOffset,
    ConfigRead,
    ConfigTold,
    ConfigWrite,
    EndsTold,
    FetchOffsets,
    LeaderSeen,
    OffsetsFetched,
    ToldEnd,
)
from lograft.chaos.history.recorder import Recorder
from lograft.chaos.live.clients.base import Place, pause
from lograft.clients.admin.aio_admin import Admin
from lograft.clients.admin.model.types import ConfigKind
from lograft.clients.consumer.aio_consumer import Consumer
from lograft.clients.errors import LograftError
from lograft.runtime.rng import Rng

REGISTER = "index.interval.bytes"
"""A setting that does not affect any check, and accepts any number."""

_LEAST_VALUE = 10_000
_PAUSE_MS = 300
_TIMEOUT_MS = 8000


class Asker:
    """A client that queries. `number` distinguishes the askers, so that each writes its own values."""

    def __init__(self, recorder: Recorder, place: Place, group: str, rng: Rng, number: int) -> None:
        self.recorder = recorder
        self._group = group
        self._place = place
        self._rng = rng
        self._value = _LEAST_VALUE * (number + 1)

    async def run(self, ending: asyncio.Event) -> None:
        bootstrap = self._place.bootstrap
        async with Admin(bootstrap, timeout_ms=_TIMEOUT_MS) as admin, Consumer(bootstrap) as consumer:
            while not ending.is_set():
                acts = [self._ask_ends, self._look_at_leaders, self._write, self._read, self._ask_group]
                await self._rng.choice(acts)(admin, consumer)
                await pause(ending, self._rng.uniform(0, 2 * _PAUSE_MS))

    async def _ask_ends(self, _: Admin, consumer: Consumer) -> None:
        recorder = self.recorder
        async with recorder.doing(AskEnds, client=recorder.process) as pending:
            ends = await consumer.end_offsets(await consumer.partitions_for(self._place.topic))
            told = tuple(ToldEnd(name, offset) for name, offset in sorted(ends.items()))
            pending.completion = EndsTold(recorder.now(), told)

    async def _ask_group(self, admin: Admin, _: Consumer) -> None:
        recorder = self.recorder
        async with recorder.doing(FetchOffsets, group=self._group) as pending:
            found = await admin.group_offsets(self._group)
            told = tuple(CommittedOffset(name, one.committed) for name, one in sorted(found.items()))
            pending.completion = OffsetsFetched(recorder.now(), told)

    async def _look_at_leaders(self, admin: Admin, _: Consumer) -> None:
        try:
            topic = await admin.describe_topic(self._place.topic)
        except LograftError:
            return  # no leader seen
        for partition in topic.partitions:
            if partition.leader is not None:
                self.recorder.happened(
                    LeaderSeen,
                    partition=partition.name,
                    leader_epoch=partition.leader_epoch,
                    broker=partition.leader,
                    seen_by=self.recorder.process,
                )

    async def _write(self, admin: Admin, _: Consumer) -> None:
        self._value += 1
        setting = {REGISTER: str(self._value)}
        async with self.recorder.doing(ConfigWrite, topic=self._place.topic, name=REGISTER, value=setting[REGISTER]):
            await admin.alter_config(ConfigKind.TOPIC, self._place.topic, setting)

    async def _read(self, admin: Admin, _: Consumer) -> None:
        recorder = self.recorder
        async with recorder.doing(ConfigRead, topic=self._place.topic, name=REGISTER) as pending:
            (entry,) = await admin.describe_config(ConfigKind.TOPIC, self._place.topic, [REGISTER])
            pending.completion = ConfigTold(recorder.now(), entry.setting)
