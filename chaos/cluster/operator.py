"""Operators of a simulated cluster, which create, delete, move and configure topics by the production admin client."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence

from lograft.chaos.cluster.checks.history import require
from lograft.chaos.cluster.clients.base import Client, ClientEnvironment, topics_of
from lograft.clients.admin.aio_admin import Admin
from lograft.clients.admin.model.types import ConfigKind, ElectionKind
from lograft.clients.admin.planning.reassignment_plan import CannotPlan, Move, plan_balance, plan_drain
from lograft.clients.errors import LograftError
from lograft.metadata.image.cluster_image import Topic
from lograft.metadata.image.partition import BrokerId, Partition
from lograft.runtime.rng import Rng

_PATIENCE_MS = 5_000
_NAMES = 3


class Operator(Client):
    """An operator. `counts` holds how often each wish was granted, or was not."""

    def __init__(
        self, name: str, stage: ClientEnvironment, rng: Rng, node_ids: list[int], broker_ids: list[int]
    ) -> None:
        super().__init__(name, stage, rng)
        self.counts: Counter[str] = Counter()
        self._node_ids = node_ids
        self._broker_ids = broker_ids
        self._admin = Admin(stage.addresses, timeout_ms=_PATIENCE_MS, runtime=stage.client_runtime(name))
        self._wishes: dict[str, Callable[[], Awaitable[bool]]] = {
            "create": self._create,
            "delete": self._delete,
            "add_partition": self._add_partition,
            "set_min_isr": self._set_min_isr,
            "recreate": self._recreate,
            "configure": self._configure,
            "drain": self._drain,
            "spread": self._spread,
            "balance": self._balance,
            "use_again": self._use_again,
            "reassign": self._reassign,
            "cancel": self._cancel,
            "elect_preferred": self._elect_preferred,
            "elect_unclean": self._elect_unclean,
            "transfer": self._transfer,
            "add_voter": self._add_voter,
            "remove_voter": self._remove_voter,
            "replace_voter": self._replace_voter,
        }

    async def run(self) -> None:
        async with self._admin:
            await super().run()

    async def _live(self, name: str) -> None:
        await self._pause(*self.stage.weather.think_ms)
        if not self.is_over:
            await self.wish(self.rng.choice(self.stage.weather.wishes))

    async def wish(self, wish: str) -> None:
        try:
            is_granted = await self._wishes[wish]()
        except LograftError as error:
            self.stage.note("refused", self.name, wish, str(error))
            is_granted = False
        self.counts[f"{wish} {'ok' if is_granted else 'no'}"] += 1

    async def run_first(self) -> None:
        """Create a topic, so that clients have one to begin with."""
        async with Admin(self.stage.addresses, runtime=self.stage.client_runtime(self.name)) as admin:
            await self._create_topic(admin, "topic0")

    # -- wishes: each returns whether there was anything to do

    async def _create(self) -> bool:
        name = f"topic{self.rng.randrange(_NAMES)}"
        topics = topics_of(self.stage.image)
        if len(topics) >= self.stage.weather.topics or any(topic.name == name for topic in topics):
            return False
        await self._create_topic(self._admin, name)
        return True

    async def _create_topic(self, admin: Admin, name: str) -> None:
        weather, rng = self.stage.weather, self.rng
        config = {
            "flush.mode": weather.flush_mode,
            "segment.bytes": str(weather.segment_bytes),
            "cleanup.policy": rng.choice(weather.policies),
            "min.cleanable.dirty.ratio": rng.choice(["0", "0.5"]),
            "delete.retention.ms": str(weather.delete_retention_ms),
        }
        if weather.min_isr is not None:
            config["min.insync.replicas"] = str(weather.min_isr)
        elif rng.random() < 0.3:
            config["min.insync.replicas"] = str(rng.randint(weather.least_min_isr, 3))
        if weather.retention_bytes is not None:
            config["retention.bytes"] = str(weather.retention_bytes)
        if rng.random() < weather.unclean_probability:
            config["unclean.leader.election.enable"] = "true"
        partitions = rng.randint(1, weather.partitions)
        created = await admin.create_topic(name, partitions=partitions, replicas=3, config=config)
        self.stage.note("create", name, str(created.id)[:4], partitions, str(config))

    async def _delete(self) -> bool:
        topic = self._any_topic()
        if topic is None:
            return False
        self.stage.note("delete", topic.name, str(topic.topic_id)[:4])
        self.stage.history.to_be_deleted(topic.topic_id, self.stage.now_us)
        await self._admin.delete_topic(topic.name)
        return True

    async def _recreate(self) -> bool:
        """Delete a topic and create another of the same name at once, while clients are using the old one."""
        topic = self._any_topic()
        if topic is None:
            return False
        self.stage.note("recreate", topic.name, str(topic.topic_id)[:4])
        self.stage.history.to_be_deleted(topic.topic_id, self.stage.now_us)
        await self._admin.delete_topic(topic.name)
        await self._create_topic(self._admin, topic.name)
        return True

    async def _add_partition(self) -> bool:
        topic = self._any_topic()
        if topic is None or len(topic.partitions) > self.stage.weather.partitions:
            return False
        await self._admin.create_partitions(topic.name, len(topic.partitions) + 1)
        return True

    async def _set_min_isr(self) -> bool:
        topic = self._any_topic()
        if topic is None:
            return False
        value = self.rng.choice([None, *map(str, range(self.stage.weather.least_min_isr, 4))])
        self.stage.note("set_min_isr", topic.name, value)
        await self._admin.alter_config(ConfigKind.TOPIC, topic.name, {"min.insync.replicas": value})
        return True

    async def _configure(self) -> bool:
        topic = self._any_topic()
        if topic is None:
            return False
        setting, values = self.rng.choice(self.stage.weather.settings)
        value = self.rng.choice(values)
        self.stage.note("configure", topic.name, setting, value)
        await self._admin.alter_config(ConfigKind.TOPIC, topic.name, {setting: value})
        return True

    async def _reassign(self) -> bool:
        """Reassign a partition to as many replicas as before, or to more or fewer."""
        found = self._any_partition(lambda partition: True)
        if found is None:
            return False
        name, number, partition = found
        fewest = min(2, self.stage.weather.least_min_isr)
        count = self.rng.choice([fewest, 2, 3, 3, len(self._broker_ids), len(partition.final_replicas)])
        target = self.rng.sample(self._broker_ids, count)
        self.stage.note("reassign", name, number, str(target))
        is_begun = await self._move(name, number, target)
        if is_begun and self.rng.random() < 0.3:
            await self._pause(0, 30)
            await self._move(name, number, None)  # cancel it half-way
        return is_begun

    async def _drain(self) -> bool:
        """Move all replicas off a broker. Where no other broker can take one, remove that replica."""
        broker_id = self.rng.choice(self._broker_ids)
        self.stage.note("drain", broker_id)
        if self.rng.random() < 0.5:
            await self._admin.alter_config(ConfigKind.BROKER, str(broker_id), {"placement.enable": "false"})
        cluster, under_way = await self._admin.describe_cluster(), await self._admin.list_reassignments()
        try:
            return await self._move_as_planned(plan_drain(cluster, under_way, [broker_id]))
        except CannotPlan:
            return await self._move_all(
                {
                    (topic.name, number): [one for one in partition.final_replicas if one != broker_id]
                    for topic in self.stage.image.topics.values()
                    for number, partition in topic.partitions.items()
                    if broker_id in partition.final_replicas and len(partition.final_replicas) > 2
                }
            )

    async def _use_again(self) -> bool:
        """Allow placement on drained brokers again."""
        for broker_id in self._broker_ids:
            await self._admin.alter_config(ConfigKind.BROKER, str(broker_id), {"placement.enable": None})
        return True

    async def _balance(self) -> bool:
        cluster, under_way = await self._admin.describe_cluster(), await self._admin.list_reassignments()
        return await self._move_as_planned(plan_balance(cluster, under_way))

    async def _move_as_planned(self, moves: Sequence[Move]) -> bool:
        return await self._move_all({(*move.partition,): list(move.after) for move in moves})

    async def _spread(self) -> bool:
        """Give a replica to the broker with the fewest replicas, which may be new."""
        counts = {broker_id: self.stage.image.replica_count(BrokerId(broker_id)) for broker_id in self._broker_ids}
        least = min(counts, key=lambda broker_id: counts[broker_id])
        found = self._any_partition(lambda partition: least not in partition.final_replicas)
        if found is None:
            return False
        name, number, partition = found
        target = [least, *partition.final_replicas[:-1]]
        self.stage.note("spread", name, number, str(target))
        return await self._move(name, number, target)

    async def _cancel(self) -> bool:
        found = self._any_partition(lambda partition: partition.is_reassigning)
        return found is not None and await self._move(found[0], found[1], None)

    async def _move(self, name: str, number: int, target: list[int] | None) -> bool:
        return await self._move_all({(name, number): target})

    async def _move_all(self, targets: Mapping[tuple[str, int], list[int] | None]) -> bool:
        return bool(targets) and None in (await self._admin.reassign(targets)).values()

    async def _elect_preferred(self) -> bool:
        elections = await self._admin.elect_leaders(ElectionKind.PREFERRED)
        return any(election.error is None for election in elections)

    async def _elect_unclean(self) -> bool:
        """Hold unclean elections in all partitions without a leader."""
        elections = await self._admin.elect_leaders(ElectionKind.UNCLEAN)
        return any(election.error is None for election in elections)

    async def _transfer(self) -> bool:
        await self._admin.transfer_leadership(self.rng.choice(self._node_ids))
        return True

    async def _add_voter(self) -> bool:
        """Add a controller that does not vote."""
        missing = self.stage.missing_voters
        if not missing:
            return False
        number = self.rng.choice(missing)
        self.stage.note("add_voter", number)
        await self._admin.add_voter(number)
        return True

    async def _remove_voter(self) -> bool:
        """Remove a voter if there are three or more, so that no single crash stops the rest for long."""
        if self.stage.missing_voters != [] or len(self._node_ids) < 3:
            return False
        number = self.rng.choice(self._node_ids)
        self.stage.note("remove_voter", number)
        await self._admin.remove_voter(number)
        return True

    async def _replace_voter(self) -> bool:
        """Replace a voter that lost its disk."""
        missing = self.stage.missing_voters
        if not missing:
            return False
        number = self.rng.choice(missing)
        self.stage.note("replace_voter", number)
        await self._replace(self._admin, number)
        return True

    async def _replace(self, admin: Admin, number: int) -> None:
        """Replace a voter, and check the answer: the node must not vote with a disk lost before the request."""
        lost = self.stage.lost_stores(number)
        for member in await admin.replace_voter(number):
            if member.node_id == number and member.is_voter:
                require(member.directory_id not in lost, "who was replaced votes with a disk that is there", number)

    async def restore_quorum(self) -> None:
        """Make every controller vote with its present disk."""
        runtime = self.stage.client_runtime(self.name)
        async with Admin(self.stage.addresses, timeout_ms=_PATIENCE_MS, runtime=runtime) as admin:
            await self._restore_quorum(admin)

    async def use_all(self) -> None:
        """Allow placement on every broker. All brokers have started by now, including those that come late."""
        runtime = self.stage.client_runtime(self.name)
        async with Admin(self.stage.addresses, timeout_ms=_PATIENCE_MS, runtime=runtime) as admin:
            for broker_id in self._broker_ids:
                while not await self._is_used(admin, broker_id):
                    self.stage.note("unknown", self.name, "use_all", broker_id)

    async def _is_used(self, admin: Admin, broker_id: int) -> bool:
        """Return False if the outcome is unknown. Even after all faults, a connection to a controller that lost power
        is not seen to be dead until it is used again. No other client changes the setting at this point."""
        try:
            await admin.alter_config(ConfigKind.BROKER, str(broker_id), {"placement.enable": None})
        except LograftError as error:
            if not error.outcome_unknown:
                raise
            return False
        return True

    async def _restore_quorum(self, admin: Admin) -> None:
        is_replacing = "replace_voter" in self.stage.weather.wishes
        while (missing := self.stage.missing_voters) != []:
            for number in missing or ():
                try:
                    await (self._replace(admin, number) if is_replacing else admin.add_voter(number))
                except LograftError as error:
                    self.stage.note("refused", self.name, "restore_quorum", str(error))
            await self._pause(100, 300)

    # -- selection

    def _any_topic(self) -> Topic | None:
        topics = topics_of(self.stage.image)
        return self.rng.choice(topics) if topics else None

    def _any_partition(self, suits: Callable[[Partition], bool]) -> tuple[str, int, Partition] | None:
        found = [
            (topic.name, number, partition)
            for topic in self.stage.image.topics.values()
            for number, partition in topic.partitions.items()
            if suits(partition)
        ]
        return self.rng.choice(found) if found else None
