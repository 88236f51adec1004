"""Files of a data directory and of a partition in it are lost together, in every combination: each is noticed, or takes
nothing with it. Noticed is what keeps the replica out of ISR and ELR, or the broker from starting."""

from collections.abc import Iterator
from itertools import chain, combinations

import pytest
from support.led_replicas import led
from support.metadata_images import ids
from support.replica_brokers import Metadata, TestBroker, append, place, until
from support.virtual_log import virtual

from lograft.broker.replica.leader_role import LeaderRole
from lograft.broker.replica.replica import Replica
from lograft.chaos.world.power_loss import DirectoryNode
from lograft.metadata.image.partition import TopicId
from lograft.runtime.files import parent_of
from lograft.storage.errors import DirectoryRefused
from lograft.storage.files.file_names import INDEX_SUFFIX, LOG_SUFFIX, PRODUCERS_SUFFIX, TIME_INDEX_SUFFIX
from lograft.storage.log.data_directory import IDENTITY_FILE, MARKER_FILE, OWNER_FILE, DirectoryOwner
from lograft.storage.state.checkpoint import CHECKPOINT_FILE, EPOCHS_FILE
from lograft.storage.state.used_epoch import USED_EPOCH_FILE
from lograft.storage.state.watermarks_file import WATERMARKS_FILE

ONE, TWO = ids(1, 2)
WIDE = (WATERMARKS_FILE, USED_EPOCH_FILE, IDENTITY_FILE, OWNER_FILE, MARKER_FILE)
SEGMENTS = ("none", "first", "last", "all")
SMALL = (CHECKPOINT_FILE, EPOCHS_FILE, "derived")
DERIVED = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, PRODUCERS_SUFFIX)


def subsets(names: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    return chain.from_iterable(combinations(names, count) for count in range(len(names) + 1))


class Cluster:
    """One broker with all there is of a partition, and what its disk and the metadata were when it stopped."""

    broker: TestBroker
    metadata: Metadata
    topic: TopicId
    path: str
    content: DirectoryNode
    names: list[str]
    records: tuple[int, int]

    async def fill(self) -> "Cluster":
        self.metadata = Metadata()
        self.broker = TestBroker(1, self.metadata, {})
        self.broker.owner = DirectoryOwner("test", 1)
        await self.broker.start()
        self.topic = self.metadata.create("orders", place(self.metadata, 1), segment_bytes="1024")
        leader = await self.broker.leads(self.topic)
        for number in range(20):
            await append(leader, producer_id=7, base_sequence=number).outcome()
        assert len(leader.log.segments) > 3
        self.path = leader.log.directory
        self.records = (leader.log.start_offset, leader.log_end)
        await self.broker.stop()
        self.content = self.broker.machine.files.copy_directory(self.broker.paths[0])
        self.names = [path.rpartition("/")[2] for path, _ in self.broker.machine.files.contents(f"{self.path}/")]
        self.image, self.history = self.metadata.image, self.metadata.history
        return self

    def lose(self, wide: tuple[str, ...], segments: str, small: tuple[str, ...]) -> None:
        """From what was there when the broker stopped; a folder of which nothing is left, too."""
        files, root = self.broker.machine.files, self.broker.paths[0]
        files.put_back(root, self.content)
        self.metadata.image, self.metadata.history = self.image.copy(), list(self.history)
        logs = [name for name in self.names if name.endswith(LOG_SUFFIX)]
        chosen = {"none": [], "first": logs[:1], "last": logs[-1:], "all": logs}[segments]
        derived = [name for name in self.names if name.endswith(DERIVED)] if "derived" in small else []
        for name in (*chosen, *derived, *(each for each in small if each != "derived")):
            files.remove(f"{self.path}/{name}")
        if not files.list_directory(self.path):
            files.remove_directory(self.path)
        for name in wide:
            files.remove(f"{root}/{name}")
        files.sync_directory(root)
        if files.exists(self.path):
            files.sync_directory(self.path)

    async def verdict(self) -> str:
        """How a broker's start ends with what is left."""
        try:
            await self.broker.start()
        except DirectoryRefused:
            self.broker.machine.boot()
            return "refused"
        try:
            await self.broker.manager.until_recovered()
            await until(lambda: self._is_settled())
            if not self._counts():
                return "does not count"
            replica = await self.broker.leads(self.topic)
            assert (replica.log.start_offset, replica.log_end) == self.records
            await _check_all_is_read(replica)
            await _check_producers_are_known(replica)
            return "nothing is lost"
        finally:
            await self.broker.stop()

    def _is_settled(self) -> bool:
        """The partition is led, or it is known that it cannot be."""
        replica = self.broker.manager.find((self.topic, 0))
        return not self._counts() or (replica is not None and isinstance(replica.role, LeaderRole))

    def _counts(self) -> bool:
        """What was in another directory, which is away, may lead when that is back."""
        partition = self.metadata.partition(self.topic)
        here = [directory.identity for directory in self.broker.directories]
        return bool(partition.isr) or any(each.directory_id in here for each in partition.elr)


async def _check_all_is_read(replica: Replica) -> None:
    offset = replica.log.start_offset
    while offset < replica.log_end:
        found = await replica.log.read(offset, 10_000, from_disk=True)
        assert found.next_offset > offset
        offset = found.next_offset


async def _check_producers_are_known(replica: Replica) -> None:
    """The last batch, sent again, is known."""
    end = replica.log_end
    repeated = await append(replica, producer_id=7, base_sequence=19).outcome()
    assert repeated.base_offset == end - 1
    assert replica.log_end == end


@pytest.mark.parametrize("wide", list(subsets(WIDE)), ids=lambda names: "+".join(names) or "nothing")
@virtual
async def test_each_combination_of_lost_files_is_noticed_or_harmless(wide: tuple[str, ...]) -> None:
    cluster = await Cluster().fill()
    for segments in SEGMENTS:
        for small in subsets(SMALL):
            cluster.lose(wide, segments, small)
            verdict = await cluster.verdict()
            is_folder_left = segments != "all" or len(small) < len(SMALL)
            assert verdict == expected(wide, segments, small, is_folder_left), (wide, segments, small)


def expected(wide: tuple[str, ...], segments: str, small: tuple[str, ...], is_folder_left: bool) -> str:
    if is_folder_left and (IDENTITY_FILE in wide or OWNER_FILE in wide):
        return "refused"
    if IDENTITY_FILE in wide:
        return "does not count"
    if WATERMARKS_FILE in wide or USED_EPOCH_FILE in wide:
        return "does not count"
    is_truth_lost = segments != "none" or CHECKPOINT_FILE in small or EPOCHS_FILE in small
    return "does not count" if is_truth_lost else "nothing is lost"


@virtual
async def test_a_broker_that_lost_the_watermarks_and_a_folder_catches_up_before_it_counts() -> None:
    metadata = Metadata()
    brokers, topic, leader = await led(metadata, 2)
    other = metadata.create("events", place(metadata, 2, 1))
    for _ in range(5):
        await append(leader).outcome()
    await append(await brokers[TWO].leads(other)).outcome()
    one, folder = brokers[ONE], leader.log.directory
    await brokers[TWO].stop()
    await until(lambda: metadata.partition(topic).isr == (ONE,))
    await one.stop()
    lose_folder(one, folder)
    one.machine.files.remove(f"{one.paths[0]}/{WATERMARKS_FILE}")
    await one.start()
    for each in (topic, other):
        assert metadata.partition(each).leader is None
        assert not metadata.partition(each).is_eligible(ONE)
    await one.stop()
    await brokers[TWO].start()
    await one.start()
    await until(lambda: metadata.partition(topic).leader == TWO, "the other had everything")
    await until(lambda: metadata.partition(topic).isr == (ONE, TWO))
    assert one.replica(topic).log_end == 5
    # And from now on it is trusted, and notices what is lost next.
    await one.stop()
    await one.start()
    await until(lambda: ONE in metadata.partition(topic).isr)
    await brokers[TWO].stop()
    await one.stop()
    lose_folder(one, folder)
    await one.start()
    await until(lambda: metadata.partition(topic).leader is None)
    assert not metadata.partition(topic).is_eligible(ONE)


@virtual
async def test_a_log_that_is_lost_while_what_was_put_aside_before_is_still_there_is_missed() -> None:
    """The name of what is put aside does not stand for the log that was made in its place."""
    metadata = Metadata()
    brokers, topic, leader = await led(metadata, 2)
    for _ in range(5):
        await append(leader).outcome()
    one, folder = brokers[ONE], leader.log.directory
    await one.stop()
    one.machine.files.remove(f"{folder}/{CHECKPOINT_FILE}")
    files = one.machine.files
    aside = f"{folder}-stray.{one.machine.clock.wall_ms()}"
    files.make_directory(aside)
    files.sync_directory(parent_of(folder))
    await one.start()
    await until(lambda: metadata.partition(topic).isr == (ONE, TWO))
    await brokers[TWO].stop()
    await until(lambda: metadata.partition(topic).leader == ONE)
    await one.stop()
    lose_folder(one, folder)
    assert files.exists(aside)
    await one.start()
    await until(lambda: metadata.partition(topic).leader is None)
    assert not metadata.partition(topic).is_eligible(ONE)


def lose_folder(broker: TestBroker, folder: str) -> None:
    files = broker.machine.files
    for path, _ in files.contents(f"{folder}/"):
        files.remove(path)
    files.remove_directory(folder)
    files.sync_directory(parent_of(folder))
