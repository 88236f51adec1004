"""Blocks of producer ids for brokers."""

import pytest
from support.metadata_images import apply, broker, brokers, epoch_of, image_with

from lograft.metadata.decisions.brokers.producer_ids import ProducerIdBlock, allocate_producer_ids
from lograft.metadata.image.partition import BrokerEpoch, BrokerId
from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ControllerError


def test_no_two_blocks_have_an_id_in_common() -> None:
    image = image_with(*brokers(2))
    blocks = []
    for broker_id in (1, 2, 1):
        decision = allocate_producer_ids(image, BrokerId(broker_id), epoch_of(broker_id))
        image = apply(image, decision)
        blocks.append(decision.answer)
    assert blocks == [ProducerIdBlock(0, 1000), ProducerIdBlock(1000, 1000), ProducerIdBlock(2000, 1000)]


@pytest.mark.parametrize("epoch", [6, 8])
def test_a_process_that_was_replaced_gets_none(epoch: int) -> None:
    with pytest.raises(ControllerError, match=f"asks with epoch {epoch}, .* has epoch 7: .* stop this one") as refused:
        allocate_producer_ids(image_with(broker(1, epoch=7)), BrokerId(1), BrokerEpoch(epoch))
    assert refused.value.code == errors_pb2.STALE_BROKER_EPOCH


def test_an_unknown_broker_gets_none() -> None:
    with pytest.raises(ControllerError, match="broker 2 is not registered") as refused:
        allocate_producer_ids(image_with(broker(1)), BrokerId(2), epoch_of(2))
    assert refused.value.code == errors_pb2.UNKNOWN_BROKER
