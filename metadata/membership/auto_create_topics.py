"""Topics that are created when a client first asks for them, in a cluster that wants that."""

from collections.abc import Sequence

from lograft.metadata.config.effective_settings import cluster_setting
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.topic_names import INTERNAL_PREFIX
from lograft.metadata.membership.controller_client import ControllerClient
from lograft.proto import errors_pb2
from lograft.proto.admin_pb2 import CreateTopicsRequest, CreateTopicsResponse, NewTopic
from lograft.proto.methods import CREATE_TOPICS
from lograft.rpc.coded_error import ControllerError
from lograft.runtime.rng import Rng


def missing_topics(image: ClusterImage, names: Sequence[str]) -> list[str]:
    """Those that are to be created: none, unless the cluster wants that; and its own it makes itself."""
    if cluster_setting(image, "auto.create.topics.enable") != "true":
        return []
    return [name for name in names if image.topic(name) is None and not name.startswith(INTERNAL_PREFIX)]


async def create_topics(client: ControllerClient, rng: Rng, names: Sequence[str], timeout_ms: int) -> None:
    """With as many partitions and replicas as the cluster gives by default. `ControllerError` if one cannot be; that
    somebody else was quicker is no error."""
    topics = [NewTopic(name=name, topic_id=rng.uuid().bytes) for name in names]
    request = CreateTopicsRequest(topics=topics, timeout_ms=timeout_ms)
    answer = await client.call(CREATE_TOPICS, request, CreateTopicsResponse, repeatable=True)
    for result in answer.results:
        if result.HasField("error") and result.error.code != errors_pb2.TOPIC_ALREADY_EXISTS:
            raise ControllerError(result.error.code, result.error.message)
