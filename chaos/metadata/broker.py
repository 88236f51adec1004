"""A simulated broker: the production cluster membership, around a miniature broker."""

import asyncio

from lograft.chaos.metadata.node import CLUSTER_ID, MetadataEnvironment, SimulatedNode
from lograft.chaos.metadata.stub.broker import StubBroker
from lograft.chaos.metadata.stub.log import StubDisks
from lograft.metadata.decisions.brokers.registration import Registration
from lograft.metadata.decisions.partitions.alter_isr import Alteration
from lograft.metadata.image.partition import BrokerId, PartitionEpoch
from lograft.metadata.image.records import BrokerRegistered, PartitionChanged, Record, TopicDeleted
from lograft.metadata.image.state_machine import MachineListener
from lograft.metadata.membership.broker_session import Wanted
from lograft.metadata.membership.cluster_membership import ClusterMembership
from lograft.metadata.membership.metadata_follower import MetadataFollower
from lograft.rpc.coded_error import ControllerError
from lograft.runtime.rng import Rng
from lograft.runtime.world import Runtime

PORT = 9092

_CALL_SECONDS = 3.0
_SHUTDOWN_MS = 6_000
_WORK_MS = 60
_IDS_PROBABILITY = 0.01


class SimulatedBroker(SimulatedNode):
    """A broker whose disks outlive it. `stub` is None while it is down."""

    def __init__(
        self,
        broker_id: BrokerId,
        rack: str | None,
        directories: int,
        world: MetadataEnvironment,
        rng: Rng,
        group: asyncio.TaskGroup,
    ) -> None:
        super().__init__(f"broker{broker_id}", world, rng, group)
        self.broker_id = broker_id
        self.disks = StubDisks(broker_id, directories, rng.fork())
        self.stub: StubBroker | None = None
        self.follower: MetadataFollower | None = None
        self._rack = rack
        self._wants_to_stop = asyncio.Event()

    @property
    def address(self) -> str:
        return f"{self.host}:{PORT}"

    def stop(self) -> None:
        """Ask the process to shut down in an orderly way. It is up until it has."""
        self._wants_to_stop.set()

    def _gone(self) -> None:
        self.stub = self.follower = None

    # -- one life

    async def _run(self, runtime: Runtime) -> None:
        self._wants_to_stop = asyncio.Event()
        life = _Life(self, runtime, self._registration())
        self.stub, self.follower = life.stub, life.membership.follower
        await runtime.network.serve(self.address, life.membership.handlers(), self._panicked)
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(part) for part in (life.membership.run(), life.work(), life.tick())]
                await life.be_ready()
                await self._wants_to_stop.wait()
                await life.leave()
                for task in tasks:
                    task.cancel()
        except* ControllerError as errors:
            # Refused permanently: another process took its place, or it was unregistered. It stops.
            self.world.note("refused", self.process, str(errors.exceptions[0]))

    def _registration(self) -> Registration:
        clean_epoch = self.disks.take_clean_epoch()
        incarnation = self.rng.uuid()
        self.world.facts.process_started(incarnation, clean_epoch)
        return Registration(
            broker_id=self.broker_id,
            incarnation=incarnation,
            address=self.address,
            rack=self._rack,
            directories=tuple(directory.directory_id for directory in self.disks.healthy),
            boot_id=self.disks.boot_id,
            clean_epoch=clean_epoch,
            min_feature_level=1,
            max_feature_level=1,
        )


class _Life(MachineListener):
    """The parts of one process."""

    def __init__(self, broker: SimulatedBroker, runtime: Runtime, registration: Registration) -> None:
        world = broker.world
        self._broker = broker
        self._world = world
        self._clock = runtime.clock
        self._rng = runtime.rng
        self._process = broker.process
        self._has_stopped = False
        self.stub = StubBroker(
            broker.broker_id, broker.disks, world.ledger, world.facts,
            lambda receiver, message: world.post(broker.broker_id, receiver, message), runtime.rng.fork(),
            lag_ms=world.weather.lag_ms,
        )  # fmt: skip
        self.membership = ClusterMembership(runtime, world.controllers, CLUSTER_ID, registration, self.stub.log_ends)
        self.membership.follower.listen(self)

    # -- the image

    def restored(self, index: int) -> None:
        image = self.membership.image
        self._world.note("restored", self._process, index)
        self._world.invariants.restored(self._process, index, image)
        self.stub.image_changed(image, None)

    def applied(self, index: int, records: tuple[Record, ...]) -> None:
        image = self.membership.image
        self._world.invariants.applied(self._process, index, records, image)
        is_large = any(isinstance(record, TopicDeleted | BrokerRegistered) for record in records)
        keys = [(record.topic_id, record.number) for record in records if isinstance(record, PartitionChanged)]
        self.stub.image_changed(image, None if is_large else keys)

    # -- start and shutdown

    async def be_ready(self) -> None:
        await self.membership.until_registered()
        epoch = self.membership.broker_epoch
        self._world.note("registered", self._process, epoch)
        self.stub.registered(epoch)
        await self._clock.sleep_ms(self._rng.uniform(1, 300))  # time to recover its logs
        while any(self.stub.failures()):  # report corruption before anything relies on the data
            await self._clock.sleep_ms(_WORK_MS)
        self.membership.session.set_wanted(Wanted.READY)

    async def leave(self) -> None:
        session = self.membership.session
        session.set_wanted(Wanted.SHUT_DOWN)
        may_stop = await session.wait_until_may_stop(at_most_ms=_SHUTDOWN_MS)
        self._world.note("stopped", self._process, "as agreed" if may_stop else "all the same")
        self._has_stopped = True
        self._broker.disks.leave_clean(session.broker_epoch)

    # -- work

    async def tick(self) -> None:
        while not self._has_stopped:
            weather = self._world.weather
            await self._clock.sleep_ms(self._rng.uniform(0.5, 1.5) * weather.tick_ms)
            self.stub.tick(self._clock.monotonic_ms(), append_probability=weather.append_probability)

    async def work(self) -> None:
        """Send changes to the controller, one request at a time."""
        await self.membership.until_registered()
        while not self._has_stopped:
            await self._clock.sleep_ms(self._rng.uniform(0.5, 1.5) * _WORK_MS)
            try:
                async with asyncio.timeout(_CALL_SECONDS):
                    await self._report()
                    if self._world.weather.faults and self._rng.random() < _IDS_PROBABILITY:
                        self._world.ledger.allocated(await self.membership.allocate_producer_ids())
            except (ControllerError, TimeoutError):
                continue  # try again later
            if alterations := self.stub.alterations(self._clock.monotonic_ms()):
                await self._alter(alterations)

    async def _report(self) -> None:
        directories, corrupt = self.stub.failures()
        if directories or corrupt:
            index = await self.membership.report_failures(directories, corrupt, "simulated")
            await self.membership.follower.wait_for(index)
            self.stub.reported(directories, corrupt)

    async def _alter(self, alterations: list[Alteration]) -> None:
        try:
            async with asyncio.timeout(_CALL_SECONDS):
                response = await self.membership.alter_partitions(alterations)
        except (ControllerError, TimeoutError) as error:
            is_refused = isinstance(error, ControllerError) and not error.outcome_unknown
            for asked in alterations:
                self.stub.answered(asked, is_refused=is_refused)
            return
        for asked, result in zip(alterations, response.results, strict=True):
            if result.HasField("error"):
                self.stub.answered(asked, is_refused=True)
            else:
                self._world.note("isr", str(asked.topic_id)[:4], asked.number, str(list(result.isr)))
                epoch = PartitionEpoch(result.partition_epoch)
                self.stub.answered(asked, is_refused=False, partition_epoch=epoch)
