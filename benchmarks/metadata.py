"""Measures the metadata of three controller processes on this machine: `make bench-metadata`, or with `--help`."""

import argparse
import asyncio
import signal
import sys
import tempfile
import tracemalloc
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from statistics import median
from time import perf_counter
from uuid import uuid4

from measure import Aim, Result
from report import describe_machine, print_results, write_json

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from support.controller_processes import CLUSTER_ID, ControllerCluster, FakeBroker, controller_cluster

from lograft.metadata.decisions.brokers.fencing import fence
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerId, Partition, PartitionEpoch
from lograft.metadata.image.record_codec import decode_operation, encode_operation
from lograft.metadata.image.records import Operation, PartitionChanged
from lograft.metadata.image.snapshot import decode_snapshot, encode_snapshot
from lograft.metadata.membership.metadata_follower import MetadataFollower
from lograft.proto.admin_pb2 import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    ConfigResource,
    CreateTopicsRequest,
    CreateTopicsResponse,
    NewTopic,
)
from lograft.proto.methods import ALTER_CONFIGS, CREATE_TOPICS
from lograft.rpc.coded_error import ControllerError
from lograft.runtime.network import ConnectFailed
from lograft.runtime.production.node_runtime import close_production_runtime, production_runtime
from lograft.runtime.world import Runtime

PARTITIONS_OF_A_TOPIC = 10
TOPICS_A_REQUEST = 50
FEW_TOPICS = 10
SMALL_CHANGES = 200


async def timed(action: Awaitable[object]) -> float:
    before = perf_counter()
    await action
    return perf_counter() - before


def best_ms(action: Callable[[], object], repetitions: int = 5) -> float:
    """The shortest of a few: what the machine's other work added is left out."""
    times = []
    for _ in range(repetitions):
        before = perf_counter()
        action()
        times.append(perf_counter() - before)
    return min(times) * 1000


# -- through the whole cluster


async def create_topics(cluster: ControllerCluster, broker: FakeBroker, first: int, end: int) -> None:
    """Topics `first` to `end`, some with each request, one request after another."""
    for start in range(first, end, TOPICS_A_REQUEST):
        topics = [
            NewTopic(
                name=f"topic-{number}",
                topic_id=uuid4().bytes,
                partitions=PARTITIONS_OF_A_TOPIC,
                replication_factor=3,
            )
            for number in range(start, min(start + TOPICS_A_REQUEST, end))
        ]
        request = CreateTopicsRequest(topics=topics)
        response = await cluster.ask(broker.address, CREATE_TOPICS, request, CreateTopicsResponse)
        for result in response.results:
            assert not result.HasField("error"), result.error.message


async def change_often(cluster: ControllerCluster, broker: FakeBroker) -> list[float]:
    """Seconds of each small change, one after another: asked by way of a broker, until it is committed."""
    times = []
    for number in range(SMALL_CHANGES):
        resource = ConfigResource(kind=ConfigResource.TOPIC, name="topic-0")
        item = AlterConfigsRequest.Item(resource=resource)
        item.changes.add(key="retention.ms", value=str(1_000_000 + number))
        request = AlterConfigsRequest(items=[item])
        before = perf_counter()
        response = await cluster.ask(broker.address, ALTER_CONFIGS, request, AlterConfigsResponse)
        times.append(perf_counter() - before)
        assert not response.results[0].HasField("error"), response.results[0].error.message
    return times


async def until_no_leader_is(image_of: FakeBroker, broker_id: int) -> None:
    membership = image_of.membership
    while membership.image.leader_count(BrokerId(broker_id)) > 0:  # noqa: ASYNC110 (the image has no event for it)
        await asyncio.sleep(0.002)


async def load_by_snapshot(runtime: Runtime, cluster: ControllerCluster, index: int) -> None:
    """What a broker does first: the whole image, from nothing."""
    follower = MetadataFollower(runtime, cluster.addresses, CLUSTER_ID, 99)
    task = asyncio.ensure_future(follower.run())
    await follower.wait_for(index)
    task.cancel()
    await asyncio.wait([task])


async def until_answering(cluster: ControllerCluster) -> None:
    address = cluster.addresses[1]
    while True:
        try:
            await cluster.describe(address)
            return
        except (ConnectFailed, ControllerError):
            await asyncio.sleep(0.01)


def resident_mib(cluster: ControllerCluster) -> list[float]:
    sizes = []
    for controller in cluster.controllers.values():
        lines = Path(f"/proc/{controller.process_id}/status").read_text().splitlines()
        sizes.append(next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024)
    return sizes


async def measure_cluster(directory: Path, topics: int) -> tuple[list[Result], ClusterImage]:
    results: list[Result] = []
    partitions = topics * PARTITIONS_OF_A_TOPIC
    runtime = production_runtime(lambda error: sys.exit(f"broken: {error!r}"))
    try:
        async with controller_cluster(directory, deadline_seconds=900) as cluster:
            cluster.start_all()
            async with AsyncExitStack() as stack:
                brokers = [await stack.enter_async_context(cluster.broker(number)) for number in (1, 2)]
                async with cluster.broker(3) as third:
                    results += await measure_growth(cluster, brokers[0], topics)
                    image = third.membership.image.copy()
                    index = third.membership.follower.index
                    loads = [await timed(load_by_snapshot(runtime, cluster, index)) for _ in range(5)]
                    results.append(
                        Result("A broker", f"loads {partitions:,} partitions by snapshot", median(loads) * 1000, "ms")
                    )
                before = perf_counter()
                led = brokers[0].membership.image.leader_count(BrokerId(3))
                await until_no_leader_is(brokers[0], 3)
                results.append(
                    Result(
                        "A broker",
                        f"is gone: {led:,} leaders elected, all brokers told",
                        (perf_counter() - before) * 1000,
                        "ms",
                        note="of which 200 are the grace after its stream broke",
                    )
                )
            for controller in cluster.controllers.values():
                controller.kill()
            cluster.start_all()
            seconds = await timed(until_answering(cluster))
            results.append(
                Result(
                    "All controllers killed and restarted",
                    "to the first linearizable answer",
                    seconds,
                    "s",
                    aim=Aim(5, "5 s"),
                )
            )
            await cluster.stop_all()
    finally:
        await close_production_runtime(runtime)
    return results, image


async def measure_growth(cluster: ControllerCluster, broker: FakeBroker, topics: int) -> list[Result]:
    empty = resident_mib(cluster)
    await create_topics(cluster, broker, 0, FEW_TOPICS)
    changes_when_small = await change_often(cluster, broker)
    seconds = await timed(create_topics(cluster, broker, FEW_TOPICS, topics))
    changes_when_large = await change_often(cluster, broker)
    full = resident_mib(cluster)
    few, many = (count * PARTITIONS_OF_A_TOPIC for count in (FEW_TOPICS, topics))
    section = f"Creating {many:,} partitions (RF 3), {TOPICS_A_REQUEST} topics a request, by way of a broker"
    small, large = median(changes_when_small), median(changes_when_large)
    change = "One small change, asked of a broker, until it is committed"
    return [
        Result(section, "all", seconds, "s", aim=Aim(20, "20 s")),
        Result(section, "partitions", (many - few) / seconds, "/s"),
        Result(section, "a controller grew by", max(b - a for a, b in zip(empty, full, strict=True)), "MiB"),
        Result(change, f"with {few} partitions, p50", small * 1000, "ms"),
        Result(change, f"with {many:,} partitions, p50", large * 1000, "ms", large / small, Aim(1.5, "about the same")),
    ]


# -- the image by itself


def measure_image(image: ClusterImage) -> list[Result]:
    broker = image.brokers[BrokerId(3)]
    led = image.leader_count(broker.broker_id)
    decision = fence(image, broker.broker_id, broker.epoch)
    operation = Operation(image.sequence, decision.records)
    data = encode_operation(operation)
    snapshot = encode_snapshot(image)
    copy = image.copy()
    section = f"The image of {image.partition_count:,} partitions, by itself"
    return [
        Result(section, "memory", memory_mib(snapshot), "MiB"),
        Result(section, "snapshot", len(snapshot) / 2**20, "MiB"),
        Result(section, "encoded", best_ms(lambda: encode_snapshot(image)), "ms"),
        Result(section, "decoded", best_ms(lambda: decode_snapshot(snapshot)), "ms"),
        Result(section, "copied (takeover, snapshot)", best_ms(image.copy), "ms"),
        Result(
            section,
            f"fencing who leads {led:,} decided",
            best_ms(lambda: fence(image, broker.broker_id, broker.epoch)),
            "ms",
            aim=Aim(1000, "1 s"),
            note=f"{len(decision.records):,} records, {len(data) / 1024:.0f} KiB",
        ),
        Result(section, "the same encoded", best_ms(lambda: encode_operation(operation)), "ms"),
        Result(section, "decoded", best_ms(lambda: decode_operation(data)), "ms"),
        Result(section, "applied", best_ms(lambda: copy.copy().apply_operation(operation)) - best_ms(copy.copy), "ms"),
        *one_change(image),
    ]


def memory_mib(snapshot: bytes) -> float:
    tracemalloc.start()
    kept = decode_snapshot(snapshot)
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert kept.topics
    return size / 2**20


def one_change(image: ClusterImage) -> list[Result]:
    """One partition changed, again and again."""
    copy = image.copy()
    topic_id = next(iter(copy.topics))

    def change() -> None:
        for _ in range(1000):
            before: Partition = copy.topics[topic_id].partitions[0]
            after = replace(before, partition_epoch=PartitionEpoch(before.partition_epoch + 1))
            copy.apply_operation(Operation(copy.sequence, (PartitionChanged(topic_id, 0, after),)))

    section = f"The image of {image.partition_count:,} partitions, by itself"
    return [Result(section, "one partition changed", best_ms(change), "us")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=1000, help=f"of {PARTITIONS_OF_A_TOPIC} partitions each (1000)")
    parser.add_argument("--json", metavar="FILE", help="write the results here too")
    parser.add_argument("--dir", help="where the data goes while measuring (default: the system's temporary directory)")
    options = parser.parse_args()
    # A kill must leave neither data nor processes behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    started = perf_counter()
    with tempfile.TemporaryDirectory(prefix="lograft-bench-", dir=options.dir) as directory:
        machine = describe_machine(directory)
        print(machine)
        print("Three controller processes; three brokers without logs, in the process that measures.")
        results, image = asyncio.run(measure_cluster(Path(directory), options.topics))
        results += measure_image(image)
    print_results(results)
    print(f"\nTook {perf_counter() - started:.0f} s.")
    if options.json is not None:
        write_json(options.json, machine, results)


if __name__ == "__main__":
    main()
