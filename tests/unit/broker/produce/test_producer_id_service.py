"""Ids for idempotent producers, each given once."""

import asyncio
from collections.abc import Iterator
from itertools import count

from support.log_services import Node, refused, settle
from support.raft_nodes import virtual

from lograft.broker.produce.producer_id_service import ProducerIdService
from lograft.metadata.decisions.brokers.producer_ids import ProducerIdBlock
from lograft.proto import errors_pb2
from lograft.proto import log_pb2 as pb
from lograft.proto.methods import INIT_PRODUCER
from lograft.rpc.coded_error import ControllerError
from lograft.rpc.unary import exchange
from lograft.runtime.network import Connection


class Controller:
    """Gives blocks of three; as slowly, and as badly, as it is told to."""

    def __init__(self) -> None:
        self._blocks: Iterator[int] = count(1000, 3)
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.error: ControllerError | None = None
        self.asked = 0

    async def allocate(self) -> ProducerIdBlock:
        self.asked += 1
        await self.may_answer.wait()
        if self.error is not None:
            raise self.error
        return ProducerIdBlock(next(self._blocks), 3)


async def connect(controller: Controller) -> Connection:
    return await Node().serve(ProducerIdService(controller.allocate).handlers())


async def init(connection: Connection) -> pb.InitProducerResponse:
    request = pb.InitProducerRequest(client_id="test").SerializeToString()
    return pb.InitProducerResponse.FromString(await exchange(connection, INIT_PRODUCER, request))


@virtual
async def test_every_producer_gets_an_id_of_its_own_and_begins_in_epoch_0() -> None:
    controller = Controller()
    connection = await connect(controller)
    answers = [await init(connection) for _ in range(8)]
    assert [answer.producer_id for answer in answers] == list(range(1000, 1008))
    assert {answer.producer_epoch for answer in answers} == {0}
    assert controller.asked == 3


@virtual
async def test_many_who_ask_together_share_a_block() -> None:
    controller = Controller()
    controller.may_answer.clear()
    connection = await connect(controller)
    asking = [asyncio.ensure_future(init(connection)) for _ in range(7)]
    await settle()
    assert controller.asked == 1
    controller.may_answer.set()
    ids = [(await each).producer_id for each in asking]
    assert sorted(ids) == list(range(1000, 1007))
    assert controller.asked == 3


@virtual
async def test_without_a_controller_the_client_is_told_to_try_again_and_can() -> None:
    controller = Controller()
    controller.may_answer.clear()
    connection = await connect(controller)
    error = await refused(init(connection))
    assert (error.code, error.retriable) == (errors_pb2.UNAVAILABLE, True)
    controller.may_answer.set()
    assert (await init(connection)).producer_id >= 1000


@virtual
async def test_what_the_controller_refuses_is_told() -> None:
    controller = Controller()
    controller.error = ControllerError(errors_pb2.STALE_BROKER_EPOCH, "a newer process has registered")
    connection = await connect(controller)
    assert (await refused(init(connection))).code == errors_pb2.STALE_BROKER_EPOCH
    controller.error = None
    assert (await init(connection)).producer_id == 1000
