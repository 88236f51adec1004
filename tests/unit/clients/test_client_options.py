"""What users meet first: options, their documentation, and errors that say what to do."""

import inspect
import re
from dataclasses import MISSING, fields
from typing import Any

import pytest
from support.fake_log_service import FakeCluster
from support.numbered_records import ORDERS_0, consuming
from support.raft_nodes import make_runtime, virtual

import lograft
from lograft import aio
from lograft.clients import errors
from lograft.clients.admin.aio_admin import Admin
from lograft.clients.consumer.reading.options import ConsumerKeywords, ConsumerOptions
from lograft.clients.producer.pipeline.options import ProducerKeywords, ProducerOptions
from lograft.clients.records.validation import check_headers
from lograft.proto import admin_pb2, errors_pb2, methods
from lograft.proto.errors import error_detail
from lograft.runtime.network import Status, Stream, StreamError

OPTIONS: list[tuple[str, Any, Any]] = [
    ("Producer", ProducerOptions, ProducerKeywords),
    ("Consumer", ConsumerOptions, ConsumerKeywords),
]


@pytest.mark.parametrize("face", [lograft, aio])
@pytest.mark.parametrize(("name", "options", "keywords"), OPTIONS)
def test_help_lists_every_option_with_its_default(face: Any, name: str, options: Any, keywords: Any) -> None:
    documentation = inspect.getdoc(getattr(face, name)) or ""
    listed = dict(re.findall(r"(\w+)=(.*?)(?:, (?=\w+=)|: )", documentation.partition("Options, all by name")[2]))
    for option in fields(options):
        assert option.default is not MISSING
        assert re.search(rf"\b{option.name}={re.escape(_written(option.default))}[,:]", documentation), option.name
    assert listed.keys() >= keywords.__annotations__.keys()
    assert {option.name for option in fields(options)} == keywords.__annotations__.keys()


def _written(default: object) -> str:
    return f'"{default}"' if isinstance(default, str) else repr(default)


@pytest.mark.parametrize(
    ("client", "option", "meant"),
    [
        ("Producer", "linger", "linger_ms"),
        ("Producer", "compression_type", "compression"),
        ("Producer", "batch_size", "batch_bytes"),
        ("Consumer", "group_id", "group"),
        ("Consumer", "group.id", "group"),
        ("Consumer", "enable_auto_commit", "auto_commit"),
        ("Consumer", "max_poll_record", "max_poll_records"),
    ],
)
@pytest.mark.parametrize("face", [lograft, aio])
def test_an_unknown_option_names_the_one_that_was_meant(face: Any, client: str, option: str, meant: str) -> None:
    with pytest.raises(TypeError, match=rf"^{client}\(\) has no option '{option}': did you mean '{meant}'\?$"):
        getattr(face, client)("localhost:9092", **{option: 1})


def test_an_option_like_no_other_lists_all() -> None:
    with pytest.raises(TypeError, match=r"has no option 'zzz': its options are acks, compression, "):
        lograft.Producer("localhost:9092", zzz=1)  # type: ignore[call-arg]


@pytest.mark.parametrize("name", ["Admin", "Producer", "Consumer"])
def test_a_dict_of_settings_is_answered_with_how_it_is_done(name: str) -> None:
    with pytest.raises(errors.InvalidArgument, match=rf" {name} takes no dict .* {name}\('localhost:9092', client_id="):
        getattr(lograft, name)({"bootstrap.servers": "localhost:9092"})


def test_headers_are_a_dict_or_pairs() -> None:
    assert check_headers({"a": b"1", "b": None}) == (("a", b"1"), ("b", None))
    assert check_headers([("a", b"1"), ("a", b"2")]) == (("a", b"1"), ("a", b"2"))
    with pytest.raises(errors.InvalidArgument, match="give a dict, or pairs"):
        check_headers({"a": "text"})  # type: ignore[arg-type]


@virtual
async def test_a_consumer_with_nothing_to_read_says_so() -> None:
    async with consuming() as (_, consumer):
        for read in (consumer.poll, consumer.poll_arrow, consumer.__anext__):
            with pytest.raises(errors.NotAssigned, match=r"nothing to read: assign\("):
                await read()
        await consumer.assign([ORDERS_0])
        assert await consumer.poll(0) == []
        await consumer.assign([])
        with pytest.raises(errors.NotAssigned, match="nothing to read"):
            await consumer.poll(0)


@virtual
async def test_a_delivery_shows_what_became_of_its_record() -> None:
    cluster = FakeCluster()
    await cluster.start()
    async with aio.Producer(cluster.bootstrap, runtime=cluster.client) as producer:
        cluster.create_topic("orders", [1])
        delivery = await producer.send("orders", b"v", headers={"trace": b"1"})
        deliveries = await producer.send_many("orders", [b"a", b"b"])
        assert repr(delivery) == "<Delivery of a record for orders: not acknowledged yet>"
        assert repr(deliveries) == "<Deliveries of 2 records for orders: not all acknowledged yet>"
        await deliveries
        assert repr(await delivery) == str(delivery.result())
        assert repr(delivery) == "<Delivery of orders-0 offset 0>"
        assert repr(deliveries) == "<Deliveries of 2 records for orders: stored>"


@virtual
async def test_nobody_reached_names_what_to_check() -> None:
    async with Admin("nobody:1", timeout_ms=1000, runtime=make_runtime(1)) as admin:
        with pytest.raises(errors.NoBrokerAvailable, match=r"check that .* its brokers listen for clients on nobody:1"):
            await admin.list_topics()


class Refusing:
    """Brokers that refuse to create topics, for want of brokers."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.asked = 0
        cluster.more_handlers = lambda _: {methods.CREATE_TOPICS: self._serve}

    async def _serve(self, stream: Stream) -> None:
        request = admin_pb2.CreateTopicsRequest.FromString(await stream.receive() or b"")
        self.asked += 1
        detail = error_detail(errors_pb2.NOT_ENOUGH_BROKERS, "told so")
        results = [admin_pb2.CreateTopicsResponse.Result(error=detail) for _ in request.topics]
        await stream.send(admin_pb2.CreateTopicsResponse(results=results).SerializeToString())


@virtual
async def test_more_replicas_than_brokers_are_refused_at_once_and_others_waited_for() -> None:
    cluster = FakeCluster()
    brokers = Refusing(cluster)
    await cluster.start()
    clock = cluster.client.clock
    async with Admin(cluster.bootstrap, timeout_ms=10_000, runtime=cluster.client) as admin:
        began_ms = clock.monotonic_ms()
        with pytest.raises(errors.NotEnoughBrokers, match="told so"):
            await admin.create_topic("orders", replicas=50)
        assert brokers.asked == 1
        assert clock.monotonic_ms() - began_ms < 100
        with pytest.raises(errors.NotEnoughBrokers, match="told so"):
            await admin.create_topic("orders", replicas=1)
        assert brokers.asked > 5
        assert clock.monotonic_ms() - began_ms > 5000


async def _no_controller(_: Stream) -> None:
    raise StreamError(Status.UNAVAILABLE, "no active controller")


@pytest.mark.parametrize("has_controller", [True, False])
@virtual
async def test_a_timeout_names_a_lost_majority(has_controller: bool) -> None:
    cluster = FakeCluster()
    cluster.controller_id = 1 if has_controller else None
    cluster.more_handlers = lambda _: {methods.CREATE_TOPICS: _no_controller}
    await cluster.start()
    async with Admin(cluster.bootstrap, timeout_ms=5000, runtime=cluster.client) as admin:
        with pytest.raises(errors.TimedOut) as caught:
            await admin.create_topic("orders", validate_only=True)
    assert ("the controller quorum has no leader" in str(caught.value)) is not has_controller
    assert "CreateTopics got no answer within 5000 ms" in str(caught.value)
