"""Random lives of three brokers: killed, cut off, damaged, kept in the dark. Nothing acknowledged is lost."""

import asyncio
from contextlib import suppress

import pytest
from support.replica_brokers import Metadata, TestBroker, append, place, until
from support.virtual_log import headers

from lograft.broker.replica.append_waiters import AppendWaiter
from lograft.broker.replica.interfaces import Acks
from lograft.broker.replica.replica import Replica
from lograft.chaos.world.loop import run_virtual
from lograft.metadata.image.partition import BrokerId, TopicId
from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ControllerError, ReplicaError
from lograft.runtime.disk.disk_writer import DiskFailed
from lograft.runtime.rng import Rng
from lograft.storage.batch.codec import decode_columns, iterate_batches
from lograft.storage.errors import CorruptLog

PARTITIONS = 2
STEPS = 150


class Life:
    """One seed's story."""

    def __init__(self, seed: int) -> None:
        self.rng = Rng(seed)
        self.metadata = Metadata()
        self.peers: dict[BrokerId, TestBroker] = {}
        self.brokers = [
            TestBroker(number, self.metadata, self.peers, disks=2, seed=self.rng.getrandbits(30))
            for number in (1, 2, 3)
        ]
        self.down: dict[BrokerId, TestBroker] = {}
        self.pending: list[tuple[int, bytes, AppendWaiter]] = []
        self.acknowledged: list[tuple[int, int, bytes]] = []  # partition, offset, value
        self.served: dict[int, int] = {}
        self.count = 0
        self.topic: TopicId

    async def start(self) -> None:
        for broker in self.brokers:
            await broker.start()
        mode = self.rng.choice(["fsync", "fsync", "os"])
        places = [place(self.metadata, 1, 2, 3), place(self.metadata, 2, 3, 1)]
        self.topic = self.metadata.create("orders", *places, segment_bytes="1024", flush_mode=mode)
        self.loses_power = mode == "fsync"
        self.metadata.configure(None, "replica.lag.time.max.ms", "2000")

    # -- steps

    async def step(self) -> None:
        steps = [
            (40, self.append), (25, self.rest), (5, self.kill), (8, self.come_back), (4, self.pause), (8, self.resume),
            (5, self.hide), (8, self.show), (2, self.rot), (1, self.lose_disk), (5, self.read), (3, self.doubt),
        ]  # fmt: skip
        total = sum(weight for weight, _ in steps)
        at = self.rng.randrange(total)
        for weight, action in steps:
            at -= weight
            if at < 0:
                await action()
                return

    def up(self) -> list[TestBroker]:
        return [broker for broker in self.brokers if broker.broker_id not in self.down]

    async def append(self) -> None:
        number = self.rng.randrange(PARTITIONS)
        for broker in self.rng.sample(self.up(), len(self.up())):
            self.count += 1
            value = b"%d" % self.count
            with suppress(ReplicaError, DiskFailed):
                replica = broker.replica(self.topic, number)
                pending = append(replica, value=value, timeout_ms=3000, acks=Acks.ALL)
                self.pending.append((number, value + b"-0", pending))

    async def rest(self) -> None:
        await asyncio.sleep(self.rng.choice([0.001, 0.01, 0.1, 1]))

    async def kill(self) -> None:
        up = self.up()
        # One copy of all at least must come through a failure of its disk: those are counted apart.
        if len(up) > 1:
            broker = self.rng.choice(up)
            power_fails = self.loses_power and self.rng.random() < 0.3
            broker.kill(power_fails=power_fails)
            if power_fails:
                broker.mend_disks()
            self.down[broker.broker_id] = broker
            if self.rng.random() < 0.5:
                await self.rest()
            self.metadata.fence(broker.broker_id)

    async def come_back(self) -> None:
        if self.down:
            broker = self.down.pop(self.rng.choice(sorted(self.down)))
            await broker.start()

    async def pause(self) -> None:
        self.rng.choice(self.up()).sink.stop()

    async def resume(self) -> None:
        self.rng.choice(self.up()).sink.start()

    async def hide(self) -> None:
        self.rng.choice(self.up()).view.hold()

    async def show(self) -> None:
        self.rng.choice(self.up()).view.release()

    def is_safe_to_lose(self, broker: TestBroker, number: int) -> bool:
        """Somebody else that is up has everything that was acknowledged, and counts."""
        partition = self.metadata.partition(self.topic, number)
        others = [each.broker_id for each in self.up() if each is not broker]
        return len([member for member in partition.isr if member in others]) >= 1 and len(partition.isr) >= 2

    async def rot(self) -> None:
        number, broker = self.rng.randrange(PARTITIONS), self.rng.choice(self.up())
        if self.is_safe_to_lose(broker, number):
            with suppress(ReplicaError):
                replica = broker.replica(self.topic, number)
                replica.found_corrupt(CorruptLog(replica.log.directory, 0, "a test says so"))
                await self.until_reported(broker)

    async def lose_disk(self) -> None:
        broker = self.rng.choice(self.up())
        healthy = broker.manager._directories.healthy
        if len(healthy) == 2 and all(self.is_safe_to_lose(broker, number) for number in range(PARTITIONS)):
            broker.machine.files.fail_next_sync(healthy[0].data.path)
            with suppress(DiskFailed):
                await healthy[0].data.write_high_watermarks({})
            await self.until_reported(broker)

    async def until_reported(self, broker: TestBroker) -> None:
        """A second copy must not go before the first is known to be gone."""
        broker.view.release()
        await asyncio.sleep(0.5)

    async def doubt(self) -> None:
        """What the controller does is not heard of, for a while."""
        view = self.rng.choice(self.up()).view

        async def lose(alterations: object) -> object:
            if self.rng.random() < 0.5:
                view.carry_out(alterations)  # type: ignore[arg-type]
            raise ControllerError(errors_pb2.CONTROLLER_MOVED, "who knows")

        view.alter = lose
        await self.rest()
        view.alter = None

    async def read(self) -> None:
        """The watermark that clients are told never goes back."""
        number = self.rng.randrange(PARTITIONS)
        leader = self.metadata.partition(self.topic, number).leader
        for broker in self.up():
            with suppress(ReplicaError):
                replica = broker.replica(self.topic, number)
                replica.check_leads(self.metadata.partition(self.topic, number).leader_epoch)
                assert broker.broker_id == leader
                if replica.watermark_is_known:
                    assert replica.high_watermark >= self.served.get(number, 0), "the watermark went back"
                    self.served[number] = replica.high_watermark

    def harvest(self) -> None:
        rest = []
        for number, value, pending in self.pending:
            if not pending.done():
                rest.append((number, value, pending))
                continue
            with suppress(ReplicaError):
                self.acknowledged.append((number, pending.result().base_offset, value))
        self.pending = rest

    # -- the end

    async def heal(self) -> None:
        for broker in self.up():
            broker.view.release()
            broker.view.alter = None
        while self.down:
            await self.come_back()
        for broker in self.brokers:
            broker.sink.start()
        for number in range(PARTITIONS):
            await until(
                lambda number=number: len(self.metadata.partition(self.topic, number).isr) == 3,  # type: ignore[misc]
                f"{number} in sync", seconds=60,
            )  # fmt: skip

    async def check(self) -> None:
        self.harvest()
        for number in range(PARTITIONS):
            replicas = [broker.replica(self.topic, number) for broker in self.brokers]
            leader = next(one for one in replicas if one.leader_epoch >= 0 and _leads(one))
            await append(leader, value=b"last", timeout_ms=60_000).outcome()
            await until(lambda: len({one.log_end for one in replicas}) == 1, seconds=60)  # noqa: B023
            contents = [await _values(one) for one in replicas]
            assert contents[0] == contents[1] == contents[2], "replicas differ"
            stored = dict(contents[0])
            for partition, offset, value in self.acknowledged:
                if partition == number:
                    assert stored.get(offset) == value, f"{value!r} at {offset} of {number} was acknowledged"

    async def run(self) -> None:
        await self.start()
        for _ in range(STEPS):
            await self.step()
            self.harvest()
            for broker in self.up():
                if broker.task.done():
                    broker.task.result()
        await self.heal()
        await self.check()


def _leads(replica: Replica) -> bool:
    try:
        replica.check_leads(None)
    except ReplicaError:
        return False
    return True


async def _values(replica: Replica) -> list[tuple[int, bytes]]:
    await headers(replica.log)
    values: list[tuple[int, bytes]] = []
    offset = replica.log_start
    while offset < replica.log_end:
        found = await replica.log.read(offset, 10_000)
        for buffer in found.buffers:
            for position, header in iterate_batches(buffer):
                columns = decode_columns(buffer[position : position + header.total_bytes])
                values += [(at, bytes(value or b"")) for at, value in zip(columns.offsets, columns.values, strict=True)]
        offset = found.next_offset
    return values


@pytest.mark.parametrize("seed", range(12))
def test_nothing_acknowledged_is_lost(seed: int) -> None:
    run_virtual(lambda: Life(seed).run(), max_virtual_seconds=1e6)
