"""Stories of clients that take more than their share."""

from lograft.chaos.live.clients.large_messages import large_messages
from lograft.chaos.live.clients.unread_ranges import unread_ranges
from lograft.chaos.live.cluster.cluster import NotInTime
from lograft.chaos.live.stories.story import StoryContext
from lograft.clients.errors import LograftError
from lograft.clients.producer.aio_producer import Producer
from lograft.runtime.limits.idle_connections import idle_connections
from lograft.runtime.observability.process_stats import resident_bytes

_CONNECTIONS = 500  # more than a node of these clusters accepts
_READERS = 60
_FILLER = "chaos-filler"
_FILLER_PARTITIONS = 3
_FILLER_RECORDS = 6000
_FILLER_BYTES = 10_000
_MOST_BYTES = 1024 * 1024 * 1024


async def connection_flood(stage: StoryContext) -> None:
    """Flood the port for clients, nodes or controllers."""
    while not stage.is_over:
        await stage.pass_ms(200, 1000)
        number, own = await stage.leader(), stage.nemesis.cluster.layout.own
        addresses = {
            "clients": own.client_address(number),
            "nodes": own.nodes_address(number),
            "controllers": own.controller_address(number),
        }
        port = stage.rng.choice(list(addresses))
        if stage.rng.random() < 1 / 3:
            async with (
                stage.nemesis.fault("large messages of strangers", f"to node {number}, {port}"),
                large_messages(addresses[port], to_clients_port=port == "clients"),
            ):
                await stage.pass_ms(2000, 5000)
            process_id = stage.nemesis.cluster.nodes[number].process_id
            taken = None if process_id is None else resident_bytes(process_id)
            if taken is not None and taken > _MOST_BYTES:
                raise NotInTime(f"node {number} takes {taken >> 20} MiB for large messages of strangers")
            continue
        greets = stage.rng.random() < 0.5
        name = "connections that stay" if greets else "connections that say nothing"
        async with (
            stage.nemesis.fault(name, f"{_CONNECTIONS} to node {number}, {port}"),
            idle_connections(addresses[port], _CONNECTIONS, greets=greets),
        ):
            await stage.pass_ms(2000, 5000)


async def slow_readers(stage: StoryContext) -> None:
    """Readers request data and leave it unread until they are cut off. Then others follow."""
    await _fill(stage)
    own, nodes = stage.nemesis.cluster.layout.own, stage.nemesis.cluster.nodes
    while not stage.is_over:
        number = stage.rng.choice(stage.nodes)
        async with (
            stage.nemesis.fault("readers that do not read", f"{_READERS} of node {number}"),
            unread_ranges(own.client_address(number), _FILLER, _FILLER_PARTITIONS, _READERS),
        ):
            await stage.pass_ms(3000, 8000)
            process_id = nodes[number].process_id
            taken = None if process_id is None else resident_bytes(process_id)
            if taken is not None and taken > _MOST_BYTES:
                raise NotInTime(f"node {number} takes {taken >> 20} MiB for readers that do not read")
        await stage.pass_ms(100, 500)


async def _fill(stage: StoryContext) -> None:
    """Fill a topic with more data than a node may hold for clients."""
    try:
        await stage.admin.create_topic(_FILLER, partitions=_FILLER_PARTITIONS, replicas=len(stage.nodes))
        async with Producer(stage.nemesis.cluster.bootstrap, delivery_timeout_ms=60_000) as producer:
            for _ in range(_FILLER_RECORDS // 100):
                await producer.send_many(_FILLER, [bytes(_FILLER_BYTES)] * 100)
    except LograftError as error:
        raise NotInTime(f"{_FILLER} could not be filled: {error}") from None
