"""The partitions of a simulated broker, which leads and follows as its own image says."""

from collections.abc import Callable, Iterable
from uuid import UUID

from lograft.chaos.metadata.rules.facts import Facts, PartitionKey
from lograft.chaos.metadata.rules.partition_rules import require
from lograft.chaos.metadata.stub.acknowledged_ledger import Ledger
from lograft.chaos.metadata.stub.log import StubDirectory, StubDisks, StubLog
from lograft.chaos.metadata.stub.messages import Diverged, Fetch, Fetched, StubMessage
from lograft.chaos.metadata.stub.roles import Following, Leading
from lograft.metadata.config.effective_settings import trusts_page_cache
from lograft.metadata.decisions.partitions.alter_isr import Alteration
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerEpoch, BrokerId, Partition, PartitionEpoch
from lograft.metadata.membership.broker_session import ReplicaEnd
from lograft.runtime.rng import Rng

_ANSWER_AWAITED_MS = 100

Post = Callable[[BrokerId, StubMessage], None]


class StubBroker:
    """The partitions of one process. It acts only on images in which its own registration is its broker's latest."""

    def __init__(
        self, broker_id: BrokerId, disks: StubDisks, ledger: Ledger, facts: Facts, post: Post, rng: Rng, *, lag_ms: int
    ) -> None:
        self.broker_id = broker_id
        self.disks = disks
        self._ledger = ledger
        self._facts = facts
        self._post = post
        self._rng = rng
        self._lag_ms = lag_ms
        self._image = ClusterImage()
        self._epoch: BrokerEpoch | None = None
        self._roles: dict[PartitionKey, Leading | Following] = {}
        self._values = 0
        self._unreported: dict[UUID, None] = {}
        self._reported: dict[PartitionKey, None] = {}  # corrupt replicas that the controller knows of

    # -- events

    def registered(self, epoch: BrokerEpoch) -> None:
        self._epoch = epoch
        self.image_changed(self._image, None)

    def image_changed(self, image: ClusterImage, keys: Iterable[PartitionKey] | None) -> None:
        """Replace this process's image. `keys` names the partitions that changed; None means all."""
        was_current, self._image = self.is_current, image
        if not self.is_current:
            self._roles.clear()
            return
        if keys is None or not was_current:
            keys = [(topic_id, number) for topic_id, number, _ in image.hosted_by(self.broker_id)]
            keys += [key for directory in self.disks.healthy for key in directory.logs if key not in keys]
            keys += [key for key in self._roles if key not in keys]
        for key in keys:
            self._take_role(key)
        for role in list(self._roles.values()):
            if isinstance(role, Leading):
                role.advance(image, self._ledger)  # the minimum ISR may have changed

    @property
    def is_current(self) -> bool:
        broker = self._image.brokers.get(self.broker_id)
        return self._epoch is not None and broker is not None and broker.epoch == self._epoch

    # -- roles

    def _take_role(self, key: PartitionKey) -> None:
        partition = self._image.partition(*key)
        if partition is None or self.broker_id not in partition.replica_ids:
            self._roles.pop(key, None)
            for directory in self.disks.healthy:
                directory.logs.pop(key, None)
            return
        role = self._roles.pop(key, None)
        place = self._place(key, partition)
        if place is None or partition.leader is None:
            return
        directory, log = place
        if partition.leader != self.broker_id:
            if not (isinstance(role, Following) and role.epoch == partition.leader_epoch and role.log is log):
                role = Following(partition.leader, partition.leader_epoch, directory, log)
            self._roles[key] = role
        elif isinstance(role, Leading) and role.epoch == partition.leader_epoch:
            role.update(partition)
            self._roles[key] = role
        elif directory.directory_id == partition.directory_of(self.broker_id):
            self._ledger.leads(key, log, self.broker_id, partition.leader_epoch)
            self._roles[key] = Leading(self.broker_id, key, partition.leader_epoch, log.end, directory, log, partition)

    def _place(self, key: PartitionKey, partition: Partition) -> tuple[StubDirectory, StubLog] | None:
        """Return the directory and log of the replica, created if necessary, or None if it cannot be used."""
        named = self.disks.find(partition.directory_of(self.broker_id))
        if named is None:
            is_out = self.broker_id not in partition.isr
            require(is_out, "who lost its disk is not in sync", f"broker {self.broker_id}", key, partition)
        if named is None or named.has_failed:
            if self.broker_id in partition.isr or not self.disks.healthy:
                return None
            named = self.disks.healthy[0]
        log = named.logs.setdefault(key, StubLog())
        if log.is_corrupt:
            if key not in self._reported or partition.leader is None:
                return None
            if not self._counts(partition):
                log = named.logs[key] = StubLog()  # another replica has all its data
            elif partition.leader == self.broker_id and partition.unclean_epoch == partition.leader_epoch:
                log.is_corrupt = False  # elected although known to be damaged: no better data exists
            else:
                return None
            self._reported.pop(key, None)
            self._facts.corrupt_replicas.pop((key, self.broker_id), None)
        return named, log

    # -- replication

    def tick(self, now_ms: int, *, append_probability: float) -> None:
        for key, role in list(self._roles.items()):
            if isinstance(role, Following):
                if role.asked_ms is None or now_ms - role.asked_ms > _ANSWER_AWAITED_MS:
                    self._fetch(key, role, now_ms)
            elif role.may_append(self._image) and self._rng.random() < append_probability:
                self._append(role)

    def _append(self, role: Leading) -> None:
        self._values += 1
        value = f"{self.broker_id}.{self._epoch}.{self._values}"
        role.append(value, self._ledger, is_synced=self._is_synced(role.key))
        role.advance(self._image, self._ledger)

    def _is_synced(self, key: PartitionKey) -> bool:
        return not trusts_page_cache(self._image, key[0]) or self._rng.random() < 0.05

    def _fetch(self, key: PartitionKey, role: Following, now_ms: int) -> None:
        assert self._epoch is not None
        role.asked_ms = now_ms
        partition = self._image.partition(*key)
        assert partition is not None
        log, directory_id = role.log, role.directory.directory_id
        self._post(
            role.leader,
            Fetch(
                key, role.epoch, partition.partition_epoch, self.broker_id, self._epoch, directory_id, log.end,
                log.last_epoch,
            ),
        )  # fmt: skip

    def receive(self, message: StubMessage, now_ms: int) -> None:
        match message:
            case Fetch():
                self._serve(message, now_ms)
            case Fetched(asked=asked) | Diverged(asked=asked):
                role = self._roles.get(asked.key)
                if isinstance(role, Following) and self._is_answered(role, asked):
                    role.asked_ms = None
                    if isinstance(message, Fetched):
                        self._take(message, role, now_ms)
                    else:
                        self._cut(message, role, now_ms)

    def _is_answered(self, role: Following, asked: Fetch) -> bool:
        log = role.log
        return (
            (asked.leader_epoch, asked.broker_epoch) == (role.epoch, self._epoch)
            and asked.directory_id == role.directory.directory_id
            and (asked.end, asked.last_epoch) == (log.end, log.last_epoch)
        )

    def _serve(self, asked: Fetch, now_ms: int) -> None:
        role = self._roles.get(asked.key)
        if isinstance(role, Leading) and role.epoch == asked.leader_epoch:
            answer = role.fetched(asked, now_ms)
            if answer is not None:
                self._post(asked.sender, answer)
                role.advance(self._image, self._ledger)

    def _take(self, answer: Fetched, role: Following, now_ms: int) -> None:
        log = role.log
        if answer.entries:
            log.append(answer.entries, is_synced=self._is_synced(answer.asked.key))
            self._fetch(answer.asked.key, role, now_ms)
        log.high_watermark = max(log.high_watermark, min(answer.high_watermark, log.end))

    def _cut(self, answer: Diverged, role: Following, now_ms: int) -> None:
        key, log = answer.asked.key, role.log
        partition = self._image.partition(*key)
        assert partition is not None
        end = min(answer.end, log.end_of(answer.epoch)[1])
        self._ledger.truncated(key, log, end, partition)
        log.truncate(end)
        self._fetch(key, role, now_ms)

    # -- requests to the controller

    def proposed(self, key: PartitionKey) -> list[BrokerId]:
        """Return the brokers that the leader has proposed for the ISR, but that the image does not include yet."""
        role = self._roles.get(key)
        return list(role.proposed) if isinstance(role, Leading) else []

    def alterations(self, now_ms: int) -> list[Alteration]:
        """Return the ISR changes to request."""
        wanted = []
        for role in self._roles.values():
            if isinstance(role, Leading) and not role.is_asking and self._is_up_to_date(role):
                isr = role.wanted_isr(self._image, now_ms, self._lag_ms)
                if isr != role.partition.isr:
                    wanted.append(role.propose(self._image, isr))
        return wanted

    def _is_up_to_date(self, role: Leading) -> bool:
        return role.expected_epoch is None or role.partition.partition_epoch >= role.expected_epoch

    def answered(self, asked: Alteration, *, is_refused: bool, partition_epoch: PartitionEpoch | None = None) -> None:
        role = self._roles.get((asked.topic_id, asked.number))
        if isinstance(role, Leading) and role.epoch == asked.leader_epoch:
            role.answered(asked, is_refused=is_refused, partition_epoch=partition_epoch)
            role.advance(self._image, self._ledger)

    def log_ends(self) -> list[ReplicaEnd]:
        """Return the log ends of the partitions without a leader."""
        ends = []
        if self.is_current:
            for topic_id, number, partition in self._image.hosted_by(self.broker_id):
                directory = self.disks.find(partition.directory_of(self.broker_id))
                if partition.leader is None and directory is not None and not directory.has_failed:
                    log = directory.logs.get((topic_id, number)) or StubLog()
                    ends.append(ReplicaEnd(topic_id, number, log.last_epoch, log.end))
        return ends

    # -- faults

    def fail_directory(self, directory: StubDirectory) -> None:
        directory.has_failed = True
        self._unreported[directory.directory_id] = None
        for key, role in list(self._roles.items()):
            if role.directory is directory:
                del self._roles[key]

    def rot(self, key: PartitionKey, log: StubLog) -> None:
        self._facts.corrupt_replicas[key, self.broker_id] = None
        self._roles.pop(key, None)
        log.rot(self._rng)

    def failures(self) -> tuple[list[UUID], list[PartitionKey]]:
        """Return the failed directories and corrupt replicas to report to the controller."""
        corrupt = []
        for directory in self.disks.healthy:
            for key, log in directory.logs.items():
                partition = self._image.partition(*key)
                if log.is_corrupt and partition is not None and self._is_to_be_told(key, partition):
                    corrupt.append(key)
        return list(self._unreported), corrupt

    def _is_to_be_told(self, key: PartitionKey, partition: Partition) -> bool:
        return key not in self._reported or self._counts(partition)

    def _counts(self, partition: Partition) -> bool:
        return self.broker_id in partition.isr or partition.is_eligible(self.broker_id)

    def reported(self, directories: Iterable[UUID], corrupt: Iterable[PartitionKey]) -> None:
        """Note that the controller has received a report. The image already includes its effects."""
        for directory_id in directories:
            self._unreported.pop(directory_id, None)
        for key in corrupt:
            self._reported[key] = None
            if self.is_current:
                self._take_role(key)
