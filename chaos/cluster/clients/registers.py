"""Clients that write and read settings of a simulated cluster, each of which has to behave like a single register."""

from lograft.chaos.cluster.clients.base import Client
from lograft.chaos.cluster.clients.poll_recorder import failure
from lograft.chaos.history.entries import ConfigRead, ConfigTold, ConfigWrite, Done, Moment
from lograft.clients.admin.aio_admin import Admin
from lograft.clients.admin.model.types import ConfigKind
from lograft.clients.errors import LograftError
from lograft.metadata.config.cluster_config import SLOW_REQUEST

REGISTER = SLOW_REQUEST
"""A setting of brokers, which are never deleted and recreated as topics are. It accepts any number, and affects no
check."""

_LEAST_VALUE = 100_000
_PATIENCE_MS = 5_000
_BROKERS = ("1", "2")


class RegisterClient(Client):
    """Writes and reads the registers of all brokers, like all clients of this kind. Each value is written only once,
    which makes it easy to interpret a read."""

    _written = 0

    async def _live(self, name: str) -> None:
        stage = self.stage
        end_us = stage.now_us + self._life_seconds() * 1_000_000
        runtime = stage.client_runtime(self.name)
        async with Admin(stage.addresses, timeout_ms=_PATIENCE_MS, runtime=runtime) as admin:
            while not self.is_over and stage.now_us < end_us:
                await self._pause(50, 1_500)
                if self.rng.random() < 0.5:
                    await self._write(admin, self.rng.choice(_BROKERS))
                else:
                    await self._read(admin, self.rng.choice(_BROKERS))

    async def _write(self, admin: Admin, broker: str) -> None:
        self._written += 1
        value = str(_LEAST_VALUE * (1 + int(self.name[-1])) + self._written)
        invoked = Moment(self.stage.now_us)
        completion: object
        try:
            await admin.alter_config(ConfigKind.BROKER, broker, {REGISTER: value})
        except LograftError as error:
            completion = failure(error, self.stage.now_us)
        else:
            completion = Done(Moment(self.stage.now_us))
        self._note(ConfigWrite, invoked, broker, completion, value=value)

    async def _read(self, admin: Admin, broker: str) -> None:
        invoked = Moment(self.stage.now_us)
        completion: object
        try:
            (entry,) = await admin.describe_config(ConfigKind.BROKER, broker, [REGISTER])
        except LograftError as error:
            completion = failure(error, self.stage.now_us)
        else:
            completion = ConfigTold(Moment(self.stage.now_us), entry.setting)
        self._note(ConfigRead, invoked, broker, completion)

    def _note(self, kind: type, invoked: Moment, broker: str, completion: object, **fields: str) -> None:
        history = self.stage.history
        number = history.next_number()
        entry = kind(self.name, number, invoked, f"broker {broker}", REGISTER, completion=completion, **fields)
        history.entries.append(entry)
