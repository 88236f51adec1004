"""What brokers ask of controllers, by calls over the network to whole controllers."""

import asyncio
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import pytest
from google.protobuf.message import Message
from support.controller_nodes import CLUSTER_ID, ControllerNodes, controllers, registration_of
from support.fake_controllers import until
from support.metadata_images import directory, ids, topic_id
from support.raft_nodes import virtual

from lograft.metadata.image.broker import BrokerState
from lograft.metadata.image.partition import Partition
from lograft.proto import errors_pb2
from lograft.proto.admin_pb2 import CreateTopicsRequest, CreateTopicsResponse, NewTopic
from lograft.proto.controller_pb2 import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterPartitionsRequest,
    AlterPartitionsResponse,
    BrokerHeartbeatRequest,
    LatestEpochRequest,
    LatestEpochResponse,
    MetadataIndexRequest,
    MetadataIndexResponse,
    RegisterRequest,
    RegisterResponse,
    ReportFailuresRequest,
    ReportFailuresResponse,
)
from lograft.proto.methods import (
    ALLOCATE_PRODUCER_IDS,
    ALTER_PARTITIONS,
    BROKER_HEARTBEAT,
    CREATE_TOPICS,
    LATEST_EPOCH,
    READ_INDEX,
    REGISTER,
    REPORT_FAILURES,
)
from lograft.rpc.coded_error import ControllerError
from lograft.rpc.status import read_detail
from lograft.rpc.unary import call
from lograft.runtime.network import Status, Stream, StreamError

ONE, TWO, THREE = ids(1, 2, 3)


def registering(broker_id: int, **others: Any) -> RegisterRequest:
    usual = registration_of(broker_id)
    fields: dict[str, Any] = {
        "cluster_id": CLUSTER_ID, "broker_id": broker_id, "incarnation": usual.incarnation.bytes,
        "address": usual.address, "directories": [each.bytes for each in usual.directories], "boot_id": "boot",
        "min_feature_level": 1, "max_feature_level": 1, **others,
    }  # fmt: skip
    return RegisterRequest(**fields)


async def ask_active(cluster: ControllerNodes, method: str, request: Message, response_type: type[Any]) -> Any:
    return await cluster.ask((await cluster.active()).address, method, request, response_type)


async def refused(cluster: ControllerNodes, method: str, request: Message, response_type: type[Any]) -> ControllerError:
    return await cluster.refused((await cluster.active()).address, method, request, response_type)


async def latest_epoch(cluster: ControllerNodes, broker_id: int) -> int | None:
    request = LatestEpochRequest(cluster_id=CLUSTER_ID, broker_id=broker_id)
    answer: LatestEpochResponse = await ask_active(cluster, LATEST_EPOCH, request, LatestEpochResponse)
    return answer.broker_epoch if answer.HasField("broker_epoch") else None


async def register(cluster: ControllerNodes, broker_id: int, **others: Any) -> RegisterResponse:
    """After the latest epoch, unless another is given."""
    request = registering(broker_id, **{"previous_epoch": await latest_epoch(cluster, broker_id), **others})
    answer: RegisterResponse = await ask_active(cluster, REGISTER, request, RegisterResponse)
    return answer


async def refused_registration(cluster: ControllerNodes, broker_id: int, **others: Any) -> ControllerError:
    request = registering(broker_id, **{"previous_epoch": await latest_epoch(cluster, broker_id), **others})
    return await refused(cluster, REGISTER, request, RegisterResponse)


class Beating:
    """Heartbeats of a process to the active controller; it wants to be ready."""

    def __init__(self, broker_id: int, epoch: int, stream: Stream) -> None:
        self._heartbeat = BrokerHeartbeatRequest(
            cluster_id=CLUSTER_ID, broker_id=broker_id, broker_epoch=epoch, wanted=BrokerHeartbeatRequest.READY
        )
        self.stream = stream
        self.sending = asyncio.ensure_future(self._send())

    async def _send(self) -> None:
        while True:
            await self.stream.send(self._heartbeat.SerializeToString())
            await asyncio.sleep(0.5)


async def beating(cluster: ControllerNodes, broker_id: int, epoch: int) -> Beating:
    connection = await cluster.connect((await cluster.active()).address)
    return Beating(broker_id, epoch, connection.open(BROKER_HEARTBEAT))


async def orders(cluster: ControllerNodes, partitions: int = 1) -> None:
    """A topic with all its replicas on brokers 1 to 3, which are ready."""
    topic = NewTopic(name="orders", topic_id=topic_id(1).bytes, partitions=partitions, replication_factor=3)
    request = CreateTopicsRequest(topics=[topic])
    response = await ask_active(cluster, CREATE_TOPICS, request, CreateTopicsResponse)
    assert not response.results[0].HasField("error"), response


async def state_of(cluster: ControllerNodes, broker_id: int) -> BrokerState:
    return (await cluster.active()).node.machine.image.brokers[ids(broker_id)[0]].state


# -- registration


@virtual
async def test_a_broker_that_registers_is_known_to_every_controller_as_it_says() -> None:
    async with controllers() as cluster:
        dirs = [UUID(int=5), UUID(int=6)]
        answer = await register(
            cluster,
            7,
            rack="r1",
            directories=[each.bytes for each in dirs],
            boot_id="kernel",
            clean_epoch=3,
            nodes_address="b7:9094",
            version="1.2.3",
        )
        await cluster.until_all(lambda node: node.machine.index >= answer.index)
        for host in cluster.hosts.values():
            broker = host.node.machine.image.brokers[ids(7)[0]]
            assert broker.epoch == answer.broker_epoch > 0
            assert broker.incarnation == registration_of(7).incarnation
            assert (broker.address, broker.rack, broker.boot_id) == ("b7:9092", "r1", "kernel")
            assert (broker.nodes_address, broker.version) == ("b7:9094", "1.2.3")
            assert broker.directories == tuple(dirs)
            assert broker.state is BrokerState.FENCED


@virtual
async def test_a_directory_from_the_past_is_named_in_the_answer_to_its_registration() -> None:
    async with controllers() as cluster:
        (own,) = registration_of(7).directories
        use = RegisterRequest.DirectoryUse
        first = await register(cluster, 7, uses=[use(directory_id=own.bytes)])
        assert list(first.stale_directories) == []
        life = await beating(cluster, 7, first.broker_epoch)
        await cluster.until_all(lambda node: node.machine.image.confirmed == {own: first.broker_epoch})
        life.sending.cancel()
        for number, (used_epoch, stale) in enumerate([(first.broker_epoch, []), (0, [own.bytes])]):
            uses = [use(directory_id=own.bytes, used_epoch=used_epoch)]
            answer = await register(cluster, 7, incarnation=UUID(int=90 + number).bytes, uses=uses)
            assert list(answer.stale_directories) == stale
        uses = [use(directory_id=own.bytes, used_epoch=answer.broker_epoch, damage="high-watermarks is missing")]
        answer = await register(cluster, 7, incarnation=UUID(int=92).bytes, uses=uses)
        assert list(answer.stale_directories) == [own.bytes]


@virtual
async def test_a_rack_that_is_not_given_is_none() -> None:
    async with controllers() as cluster:
        await register(cluster, 7)
        assert (await cluster.active()).node.machine.image.brokers[ids(7)[0]].rack is None


@virtual
async def test_the_same_process_asking_again_keeps_its_epoch_and_another_gets_another() -> None:
    async with controllers() as cluster:
        first = await register(cluster, 7)
        again = await register(cluster, 7)
        assert again.broker_epoch == first.broker_epoch
        assert again.index >= first.index
        other = await register(cluster, 7, incarnation=UUID(int=99).bytes)
        assert other.broker_epoch > first.broker_epoch
        assert other.index > first.index


@virtual
async def test_the_latest_epoch_is_that_of_the_latest_registration() -> None:
    async with controllers() as cluster:
        assert await latest_epoch(cluster, 7) is None
        for number in (1, 2):
            registered = await register(cluster, 7, incarnation=UUID(int=number).bytes)
            await register(cluster, 8)
            assert await latest_epoch(cluster, 7) == registered.broker_epoch


@virtual
async def test_a_request_that_was_overtaken_by_another_process_changes_nothing() -> None:
    async with controllers() as cluster:
        first = await register(cluster, 7)
        newer = await register(cluster, 7, incarnation=UUID(int=99).bytes)
        before = (await cluster.active()).node.machine.image.copy()
        late = {"incarnation": UUID(int=98).bytes, "previous_epoch": first.broker_epoch}
        error = await refused_registration(cluster, 7, **late)
        assert error.code == errors_pb2.STALE_BROKER_EPOCH
        assert (await cluster.active()).node.machine.image == before
        again = await register(cluster, 7, incarnation=UUID(int=99).bytes, previous_epoch=first.broker_epoch)
        assert again.broker_epoch == newer.broker_epoch, "it may have missed its answer"


@virtual
async def test_a_broker_of_another_cluster_is_refused() -> None:
    async with controllers() as cluster:
        question = LatestEpochRequest(cluster_id="other", broker_id=7)
        for error in (
            await refused_registration(cluster, 7, cluster_id="other"),
            await refused(cluster, LATEST_EPOCH, question, LatestEpochResponse),
        ):
            assert error.code == errors_pb2.WRONG_CLUSTER
            assert "'cluster'" in error.message
            assert "'other'" in error.message
        assert not (await cluster.active()).node.machine.image.brokers


@pytest.mark.parametrize(
    ("field", "named"),
    [({"incarnation": b"short"}, "incarnation"), ({"directories": [bytes(16), bytes(17)]}, "directories")],
)
def test_an_id_that_is_none_is_refused_and_named(field: dict[str, Any], named: str) -> None:
    @virtual
    async def scenario() -> None:
        async with controllers() as cluster:
            error = await refused_registration(cluster, 7, **field)
            assert error.code == errors_pb2.INVALID_REQUEST
            assert named in error.message

    scenario()


@virtual
async def test_two_processes_of_one_id_do_not_throw_each_other_out() -> None:
    """Nor does the one that is there have to do anything for it but live."""
    async with controllers() as cluster:
        first = await register(cluster, 7)
        heartbeats = await beating(cluster, 7, first.broker_epoch)
        other = {"incarnation": UUID(int=99).bytes, "directories": [UUID(int=98).bytes]}
        for _ in range(10):
            error = await refused_registration(cluster, 7, **other)
            assert error.code == errors_pb2.DUPLICATE_BROKER
            assert error.retriable
            await asyncio.sleep(1)
        heartbeats.sending.cancel()
        heartbeats.stream.reset()
        await asyncio.sleep(0.3)
        assert (await register(cluster, 7, **other)).broker_epoch > first.broker_epoch


@virtual
async def test_a_process_that_was_silent_for_a_session_can_be_replaced() -> None:
    async with controllers() as cluster:
        first = await register(cluster, 7)
        heartbeats = await beating(cluster, 7, first.broker_epoch)
        await asyncio.sleep(5)
        heartbeats.sending.cancel()  # its stream stays
        other = {"incarnation": UUID(int=99).bytes, "directories": [UUID(int=98).bytes]}
        await asyncio.sleep(2)
        assert (await refused_registration(cluster, 7, **other)).code == errors_pb2.DUPLICATE_BROKER
        await asyncio.sleep(1.1)
        await register(cluster, 7, **other)


@pytest.mark.parametrize("is_clean", [True, False])
def test_what_a_reboot_may_have_cost_is_told_by_the_boot_id_and_the_mark_of_a_clean_stop(is_clean: bool) -> None:
    @virtual
    async def scenario() -> None:
        async with controllers() as cluster:
            broker = await cluster.ready_broker(7)
            topic = NewTopic(name="quick", topic_id=topic_id(1).bytes, configs={"flush.mode": "os"})
            await ask_active(cluster, CREATE_TOPICS, CreateTopicsRequest(topics=[topic]), CreateTopicsResponse)
            epoch = broker.membership.broker_epoch
            await broker.kill()
            clean = {"clean_epoch": epoch} if is_clean else {}
            await register(cluster, 7, incarnation=UUID(int=99).bytes, boot_id="another", **clean)
            partition = (await cluster.active()).node.machine.image.topics[topic_id(1)].partitions[0]
            assert partition.leader is None
            assert [replica.broker_id for replica in partition.elr] == ([7] if is_clean else [])

    scenario()


@virtual
async def test_who_has_a_directory_of_the_old_process_has_outlived_it() -> None:
    async with controllers() as cluster:
        await asyncio.sleep(60)
        first = await register(cluster, 7)
        heartbeats = await beating(cluster, 7, first.broker_epoch)
        assert await heartbeats.stream.receive() is not None
        assert (await register(cluster, 7, incarnation=UUID(int=99).bytes)).broker_epoch > first.broker_epoch


# -- sessions, from the first heartbeat to the end


@virtual
async def test_who_falls_silent_is_fenced_when_its_session_ends() -> None:
    async with controllers() as cluster:
        answer = await register(cluster, 7)
        heartbeats = await beating(cluster, 7, answer.broker_epoch)
        active = await cluster.active()
        broker = active.node.machine.image.brokers
        await until(lambda: broker[ids(7)[0]].state is BrokerState.ACTIVE)
        await asyncio.sleep(10)
        assert await state_of(cluster, 7) is BrokerState.ACTIVE
        heartbeats.sending.cancel()
        began_ms = cluster.now_ms
        await until(lambda: broker[ids(7)[0]].state is BrokerState.FENCED)
        assert 2400 <= cluster.now_ms - began_ms <= 3100


@virtual
async def test_whose_stream_breaks_is_fenced_after_the_grace() -> None:
    async with controllers() as cluster:
        answer = await register(cluster, 7)
        heartbeats = await beating(cluster, 7, answer.broker_epoch)
        broker = (await cluster.active()).node.machine.image.brokers
        await until(lambda: broker[ids(7)[0]].state is BrokerState.ACTIVE)
        heartbeats.sending.cancel()
        heartbeats.stream.reset()
        began_ms = cluster.now_ms
        await until(lambda: broker[ids(7)[0]].state is BrokerState.FENCED)
        assert 190 <= cluster.now_ms - began_ms <= 400


# -- partitions


def altering(epoch: int, *items: AlterPartitionsRequest.Item) -> AlterPartitionsRequest:
    return AlterPartitionsRequest(broker_id=1, broker_epoch=epoch, items=items)


def item(before: Partition, number: int, members: Mapping[int, int], **others: Any) -> AlterPartitionsRequest.Item:
    """`members`: brokers and their epochs."""
    fields: dict[str, Any] = {
        "topic_id": topic_id(1).bytes, "partition": number, "leader_epoch": before.leader_epoch,
        "partition_epoch": before.partition_epoch,
        "isr": [
            AlterPartitionsRequest.Member(broker_id=each, broker_epoch=epoch, directory_id=directory(each).bytes)
            for each, epoch in members.items()
        ],
        **others,
    }  # fmt: skip
    return AlterPartitionsRequest.Item(**fields)


@virtual
async def test_isrs_are_altered_item_by_item_and_the_answer_says_where_it_is_committed() -> None:
    async with controllers() as cluster:
        brokers = {each: await cluster.ready_broker(each) for each in (1, 2, 3)}
        await orders(cluster, partitions=3)
        image = (await cluster.active()).node.machine.image
        led = [each for each, one in image.topics[topic_id(1)].partitions.items() if one.leader == 1]
        others = [each for each in range(3) if each not in led]
        before = image.topics[topic_id(1)].partitions[led[0]]
        epochs = {each: host.membership.broker_epoch for each, host in brokers.items()}
        index_before = (await cluster.active()).node.machine.index
        response = await ask_active(
            cluster, ALTER_PARTITIONS,
            altering(
                epochs[1],
                item(before, 50, epochs),
                item(before, led[0], {1: epochs[1], 2: epochs[2]}),
                item(image.topics[topic_id(1)].partitions[others[0]], others[0], epochs),
                item(before, led[0], epochs),
            ),
            AlterPartitionsResponse,
        )  # fmt: skip
        after = (await cluster.active()).node.machine.image.topics[topic_id(1)].partitions[led[0]]
        assert after.isr == ids(1, 2)
        assert response.index > index_before
        unknown, done, not_led, twice = response.results
        assert unknown.error.code == errors_pb2.UNKNOWN_PARTITION
        assert (unknown.topic_id, unknown.partition) == (topic_id(1).bytes, 50)
        assert not done.HasField("error")
        assert (done.topic_id, done.partition, list(done.isr)) == (topic_id(1).bytes, led[0], [1, 2])
        assert (done.leader_epoch, done.partition_epoch) == (after.leader_epoch, after.partition_epoch)
        assert not_led.error.code == errors_pb2.INVALID_REQUEST
        assert twice.error.code == errors_pb2.INVALID_REQUEST


@virtual
async def test_ids_and_epochs_of_an_alteration_are_checked() -> None:
    async with controllers() as cluster:
        brokers = {each: await cluster.ready_broker(each) for each in (1, 2, 3)}
        await orders(cluster)
        before = (await cluster.active()).node.machine.image.topics[topic_id(1)].partitions[0]
        epochs = {each: host.membership.broker_epoch for each, host in brokers.items()}
        short_member = AlterPartitionsRequest.Member(broker_id=2, broker_epoch=1, directory_id=b"short")
        for wrong in (item(before, 0, epochs, topic_id=b"short"), item(before, 0, epochs, isr=[short_member])):
            error = await refused(cluster, ALTER_PARTITIONS, altering(epochs[1], wrong), AlterPartitionsResponse)
            assert error.code == errors_pb2.INVALID_REQUEST
        stale = altering(epochs[1] + 100, item(before, 0, epochs))
        error = await refused(cluster, ALTER_PARTITIONS, stale, AlterPartitionsResponse)
        assert error.code == errors_pb2.STALE_BROKER_EPOCH


@virtual
async def test_a_directory_that_failed_and_a_replica_that_is_corrupt_leave_their_isrs() -> None:
    async with controllers() as cluster:
        brokers = {each: await cluster.ready_broker(each) for each in (1, 2, 3)}
        await orders(cluster, partitions=2)
        report = ReportFailuresRequest(
            broker_id=1, broker_epoch=brokers[1].membership.broker_epoch,
            corrupt_replicas=[ReportFailuresRequest.CorruptReplica(topic_id=topic_id(1).bytes, partition=1)],
        )  # fmt: skip
        response = await ask_active(cluster, REPORT_FAILURES, report, ReportFailuresResponse)
        machine = (await cluster.active()).node.machine
        assert machine.index >= response.index
        partitions = machine.image.topics[topic_id(1)].partitions
        assert [1 in partitions[number].isr for number in (0, 1)] == [True, False]
        report = ReportFailuresRequest(
            broker_id=2, broker_epoch=brokers[2].membership.broker_epoch, failed_directories=[directory(2).bytes]
        )
        await ask_active(cluster, REPORT_FAILURES, report, ReportFailuresResponse)
        partitions = machine.image.topics[topic_id(1)].partitions
        assert [2 in partitions[number].isr for number in (0, 1)] == [False, False]
        assert machine.image.brokers[TWO].directories == ()


@pytest.mark.parametrize(
    "wrong",
    [
        ReportFailuresRequest(failed_directories=[b"short"]),
        ReportFailuresRequest(corrupt_replicas=[ReportFailuresRequest.CorruptReplica(topic_id=b"short")]),
    ],
)
def test_a_report_with_an_id_that_is_none_is_refused(wrong: ReportFailuresRequest) -> None:
    @virtual
    async def scenario() -> None:
        async with controllers() as cluster:
            error = await refused(cluster, REPORT_FAILURES, wrong, ReportFailuresResponse)
            assert error.code == errors_pb2.INVALID_REQUEST

    scenario()


@virtual
async def test_producer_ids_are_given_out_in_blocks_that_do_not_overlap() -> None:
    async with controllers() as cluster:
        epoch = (await register(cluster, 1)).broker_epoch
        request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch)
        end = 0
        for _ in range(3):
            block = await ask_active(cluster, ALLOCATE_PRODUCER_IDS, request, AllocateProducerIdsResponse)
            assert block.first >= end
            assert block.count > 0
            end = block.first + block.count
        stale = AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch + 1)
        error = await refused(cluster, ALLOCATE_PRODUCER_IDS, stale, AllocateProducerIdsResponse)
        assert error.code == errors_pb2.STALE_BROKER_EPOCH


# -- who is asked

ACTIVE_ONLY: list[tuple[str, Message, type[Message]]] = [
    (LATEST_EPOCH, LatestEpochRequest(cluster_id=CLUSTER_ID, broker_id=7), LatestEpochResponse),
    (REGISTER, registering(7), RegisterResponse),
    (ALTER_PARTITIONS, AlterPartitionsRequest(), AlterPartitionsResponse),
    (REPORT_FAILURES, ReportFailuresRequest(), ReportFailuresResponse),
    (ALLOCATE_PRODUCER_IDS, AllocateProducerIdsRequest(), AllocateProducerIdsResponse),
]
NAMES = ["LatestEpoch", "Register", "AlterPartitions", "ReportFailures", "AllocateProducerIds"]


@pytest.mark.parametrize(("method", "request_", "response_type"), ACTIVE_ONLY, ids=NAMES)
def test_a_standby_refuses_and_says_who_is_active_and_where(
    method: str, request_: Message, response_type: type[Message]
) -> None:
    @virtual
    async def scenario() -> None:
        async with controllers() as cluster:
            active = await cluster.active()
            for standby in await cluster.standbys():
                stream = (await cluster.connect(standby.address)).open(method)
                await stream.send(request_.SerializeToString())
                await stream.half_close()
                with pytest.raises(StreamError) as caught:
                    await stream.receive()
                detail = read_detail(caught.value)
                assert detail is not None
                assert detail.code == errors_pb2.NOT_CONTROLLER
                assert (detail.leader_id, detail.leader_address) == (active.node_id, active.address)

    scenario()


@pytest.mark.parametrize(("method", "request_", "response_type"), ACTIVE_ONLY, ids=NAMES)
def test_a_controller_that_takes_no_part_yet_refuses_and_names_nobody(
    method: str, request_: Message, response_type: type[Message]
) -> None:
    @virtual
    async def scenario() -> None:
        cluster = ControllerNodes()
        await cluster[1].start()
        error = await cluster.refused(cluster[1].address, method, request_, response_type)
        assert (error.code, error.leader_id) == (errors_pb2.NOT_CONTROLLER, None)
        await cluster.end()

    scenario()


@virtual
async def test_every_controller_tells_how_far_the_metadata_is_committed() -> None:
    async with controllers() as cluster:
        committed = (await register(cluster, 7)).index
        for host in cluster.hosts.values():
            answer = await cluster.ask(host.address, READ_INDEX, MetadataIndexRequest(), MetadataIndexResponse)
            assert answer.index >= committed
            assert host.node.machine.index >= answer.index


@virtual
async def test_without_a_majority_nobody_tells_and_nobody_keeps_the_caller_waiting_for_ever() -> None:
    async with controllers() as cluster:
        active, standbys = await cluster.active(), await cluster.standbys()
        for standby in standbys:
            await standby.kill()
        connection = await cluster.connect(active.address)
        with pytest.raises(ControllerError) as caught:
            async with asyncio.timeout(3):
                await call(connection, READ_INDEX, MetadataIndexRequest(), MetadataIndexResponse)
        assert caught.value.code == errors_pb2.UNAVAILABLE


@virtual
async def test_a_change_without_a_majority_is_said_to_be_unknown_once_leadership_is_lost() -> None:
    async with controllers() as cluster:
        active, standbys = await cluster.active(), await cluster.standbys()
        epoch = (await register(cluster, 7)).broker_epoch
        for standby in standbys:
            await standby.kill()
        request = AllocateProducerIdsRequest(broker_id=7, broker_epoch=epoch)
        error = await cluster.refused(active.address, ALLOCATE_PRODUCER_IDS, request, AllocateProducerIdsResponse)
        assert error.code == errors_pb2.CONTROLLER_MOVED
        assert error.outcome_unknown


@virtual
async def test_a_second_message_in_a_call_is_refused() -> None:
    async with controllers() as cluster:
        stream = (await cluster.connect((await cluster.active()).address)).open(REGISTER)
        for _ in range(2):
            await stream.send(registering(7).SerializeToString())
        with pytest.raises(StreamError) as caught:
            await stream.receive()
        assert caught.value.status is Status.INVALID_ARGUMENT
