"""Which partition a record goes to: by its key, by turns, or as the application says; and to those that are added."""

from collections import Counter
from zlib import crc32

from support.fake_controllers import until
from support.numbered_records import producing
from support.raft_nodes import virtual


@virtual
async def test_the_same_key_goes_to_the_same_partition_by_crc_32() -> None:
    async with producing((1, 2, 3)) as (_, producer):
        places = [(await (await producer.send("orders", b"v", key=key))).partition for key in (b"a", b"b", b"c", b"a")]
    # CRC-32 of a, b and c is 0xe8b7be43, 0x71beeff9 and 0x06b9df6f.
    assert places == [0xE8B7BE43 % 3, 0x71BEEFF9 % 3, 0x06B9DF6F % 3, 0xE8B7BE43 % 3]


@virtual
async def test_records_without_a_key_stay_together_for_a_batch_and_then_go_elsewhere() -> None:
    async with producing((1, 2, 3)) as (_, producer):
        places = []  # type: ignore[var-annotated]
        for _ in range(30):
            deliveries = [await producer.send("orders", b"v") for _ in range(10)]
            partitions = {(await delivery).partition for delivery in deliveries}
            assert len(partitions) == 1
            places += partitions
    assert set(Counter(places)) == {0, 1, 2}


@virtual
async def test_partitions_that_are_added_are_used_at_once_with_and_without_keys() -> None:
    async with producing((1,)) as (cluster, producer):
        clock = cluster.client.clock
        before = [await (await producer.send("orders", b"v", key=b"%d" % number)) for number in range(10)]
        assert {stored.partition for stored in before} == {0}
        cluster.add_partition("orders", 2)
        cluster.add_partition("orders", 3)
        added_ms = clock.monotonic_ms()
        while await producer.partitions_for("orders") < 3:
            await (await producer.send("orders", b"v"))
        assert clock.monotonic_ms() - added_ms < 1000, "its source of metadata says so by itself"
        keyed = [await (await producer.send("orders", b"v", key=b"%d" % number)) for number in range(30)]
        assert [stored.partition for stored in keyed] == [crc32(b"%d" % number) % 3 for number in range(30)]
        sticky = [await (await producer.send("orders", b"v")) for _ in range(30)]
        assert {stored.partition for stored in sticky} == {0, 1, 2}


@virtual
async def test_partitions_that_are_added_are_noticed_though_the_broker_that_is_followed_is_behind() -> None:
    async with producing((1,)) as (cluster, producer):
        await (await producer.send("orders", b"v"))
        clock = cluster.client.clock
        await until(lambda: producer._cluster._watched is not None)
        (followed,) = [number for number, at in cluster.addresses.items() if at == producer._cluster._watched]
        cluster.brokers[followed].is_behind = True
        cluster.add_partition("orders", 2)
        added_ms = clock.monotonic_ms()
        places = {0}
        while places == {0}:
            places |= {(await (await producer.send("orders", b"v"))).partition}
        assert clock.monotonic_ms() - added_ms < 20_000, "another is asked now and then"


@virtual
async def test_a_partitioner_of_ones_own_decides_and_none_leaves_it_to_the_key() -> None:
    def choose(topic: str, key: bytes | None, value: bytes | None, count: int) -> int | None:
        assert (topic, count) == ("orders", 3)
        return None if value == b"default" else 2

    async with producing((1, 2, 3), partitioner=choose) as (_, producer):
        assert (await (await producer.send("orders", b"v", key=b"a"))).partition == 2
        assert (await (await producer.send("orders", b"default", key=b"b"))).partition == 0x71BEEFF9 % 3


@virtual
async def test_partitions_that_are_added_can_be_used_at_once_and_are() -> None:
    async with producing() as (cluster, producer):
        assert await producer.partitions_for("orders") == 1
        for broker in cluster.brokers.values():
            broker.is_behind = True
        cluster.add_partition("orders", 2)
        assert (await (await producer.send("orders", b"v", partition=1))).partition == 1
        assert await producer.partitions_for("orders") == 2
        assert {(await (await producer.send("orders", b"v"))).partition for _ in range(20)} == {0, 1}
