"""Ready: unfenced, and in the ISR of each own partition that has a leader."""

import pytest
from support.metadata_images import ACTIVE, FENCED, SHUTTING_DOWN, brokers, image_with, partition

from lograft.broker.node.broker_role import why_not_ready
from lograft.metadata.image.broker import BrokerState
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerId, Partition

ONE = BrokerId(1)


def image_of(**topics: list[Partition]) -> ClusterImage:
    return image_with(*brokers(3), topics=topics)


@pytest.mark.parametrize(
    "image",
    [
        image_of(),
        image_of(orders=[partition(1, 2, 3)]),
        image_of(orders=[partition(2, 3, isr=(2, 3))]),
        image_of(orders=[partition(1, 2, isr=(), leader=None)]),
        image_of(orders=[partition(2, 3, 1, isr=(2, 3), target=(2, 1), adding=(1,))]),
    ],
    ids=["no partitions", "in sync", "not its own", "without a leader", "on its way there"],
)
def test_a_broker_that_does_all_that_is_expected_is_ready(image: ClusterImage) -> None:
    assert why_not_ready(image, ONE, ACTIVE) is None


@pytest.mark.parametrize(
    ("state", "reason"), [(FENCED, "fenced: the active controller"), (SHUTTING_DOWN, "shutting down")]
)
def test_a_broker_that_is_not_active_is_not_ready(state: BrokerState, reason: str) -> None:
    assert (why_not_ready(image_of(), ONE, state) or "").startswith(reason)


def test_a_broker_that_is_behind_says_with_what() -> None:
    behind, in_sync = partition(1, 2, isr=(2,), leader=2), partition(1, 2)
    assert why_not_ready(image_of(orders=[in_sync, behind]), ONE, ACTIVE) == (
        "catching up on 1 of its partitions: orders-1"
    )
    many = why_not_ready(image_of(orders=[behind] * 5), ONE, ACTIVE)
    assert many == "catching up on 5 of its partitions: orders-0, orders-1, orders-2 and 2 more"
