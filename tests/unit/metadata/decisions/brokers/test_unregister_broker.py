"""Forgetting a broker that will not return."""

import pytest
from support.metadata_images import ACTIVE, FENCED, SHUTTING_DOWN, apply, broker, image_with, partition

from lograft.metadata.decisions.brokers.registration import unregister_broker
from lograft.metadata.image.broker import BrokerState
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerId
from lograft.proto import errors_pb2
from lograft.rpc.coded_error import ControllerError


def refusal(image: ClusterImage, broker_id: int) -> ControllerError:
    with pytest.raises(ControllerError) as refused:
        unregister_broker(image, BrokerId(broker_id))
    return refused.value


def test_a_stopped_broker_without_replicas_is_forgotten() -> None:
    image = image_with(broker(1), broker(2, state=FENCED), topics={"orders": [partition(1)]})
    after = apply(image, unregister_broker(image, BrokerId(2)))
    assert list(after.brokers) == [1]
    assert after.last_broker_epoch == image.last_broker_epoch


@pytest.mark.parametrize("state", [ACTIVE, SHUTTING_DOWN])
def test_a_running_broker_is_in_use(state: BrokerState) -> None:
    error = refusal(image_with(broker(1, state=state)), 1)
    assert error.code == errors_pb2.BROKER_IN_USE
    assert "stop it first" in error.message


@pytest.mark.parametrize(("count", "says"), [(1, "has 1 replica: reassign"), (3, "has 3 replicas: reassign")])
def test_a_broker_with_replicas_is_in_use_in_sync_or_not(count: int, says: str) -> None:
    hosted = [partition(1, 2, isr=[1])] * count
    error = refusal(image_with(broker(1), broker(2, state=FENCED), topics={"orders": hosted}), 2)
    assert error.code == errors_pb2.BROKER_IN_USE
    assert says in error.message


def test_a_broker_that_is_to_get_a_replica_is_in_use() -> None:
    moving = partition(1, 2, isr=[1], target=[2], adding=[2])
    error = refusal(image_with(broker(1), broker(2, state=FENCED), topics={"orders": [moving]}), 2)
    assert error.code == errors_pb2.BROKER_IN_USE


def test_an_unknown_broker_is_not_found() -> None:
    assert refusal(image_with(broker(1)), 2).code == errors_pb2.UNKNOWN_BROKER
