"""The largest message from clients follows what topics take."""

import pytest

from lograft.broker.requests.request_limit import USUAL_BATCH_BYTES, USUAL_REQUEST_BYTES, RequestLimit
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.records import ConfigChanged, ConfigResource, ResourceKind
from lograft.runtime.network import MAX_MESSAGE_BYTES

CHANGES = {
    "a topic takes more": (ResourceKind.TOPIC, "max.message.bytes", str(USUAL_BATCH_BYTES + 1), True),
    "topics take more by default": (ResourceKind.CLUSTER, "max.message.bytes", str(USUAL_BATCH_BYTES + 1), True),
    "a topic takes as much as usual": (ResourceKind.TOPIC, "max.message.bytes", str(USUAL_BATCH_BYTES), False),
    "a topic takes the default": (ResourceKind.TOPIC, "max.message.bytes", None, False),
    "another setting": (ResourceKind.TOPIC, "segment.bytes", str(2**30), False),
}


@pytest.mark.parametrize("name", CHANGES)
def test_it_grows_when_a_topic_takes_larger_batches(name: str) -> None:
    kind, key, value, grows = CHANGES[name]
    resource = ConfigResource(kind, "x")
    limit = RequestLimit(ClusterImage, None)
    limit.applied(1, (ConfigChanged(resource, key, value),))
    assert (limit.has_grown.is_set(), limit.size_bytes) == (
        (True, MAX_MESSAGE_BYTES) if grows else (False, USUAL_REQUEST_BYTES)
    )
    if value is not None:
        image = ClusterImage()
        image.configs[resource] = {key: value}
        restored = RequestLimit(lambda: image, None)
        restored.restored(1)
        assert restored.has_grown.is_set() == grows


def test_what_is_configured_stays() -> None:
    limit = RequestLimit(ClusterImage, 2**23)
    change = ConfigChanged(ConfigResource(ResourceKind.TOPIC, "x"), "max.message.bytes", str(2**25))
    limit.applied(1, (change,))
    assert (limit.has_grown.is_set(), limit.size_bytes) == (False, 2**23)
