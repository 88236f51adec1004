"""Creation of topics when a client first asks for them, in a cluster that allows it."""

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
    """Return the missing topics to create: none unless the cluster allows it; internal topics are created elsewhere."""
    if cluster_setting(image, "auto.create.topics.enable") != "true":
        return []
    return [name for name in names if image.topic(name) is None and not name.startswith(INTERNAL_PREFIX)]


async def create_topics(client: ControllerClient, rng: Rng, names: Sequence[str], timeout_ms: int) -> None:
    """Create the topics with the cluster's default numbers of partitions and replicas. Raise `ControllerError` if one
    cannot be created; a topic that exists by now is no error."""
    topics = [NewTopic(name=name, topic_id=rng.uuid().bytes) for name in names]
    request = CreateTopicsRequest(topics=topics, timeout_ms=timeout_ms)
    answer = await client.call(CREATE_TOPICS, request, CreateTopicsResponse, repeatable=True)
    for result in answer.results:
        if result.HasField("error") and result.error.code != errors_pb2.TOPIC_ALREADY_EXISTS:
            raise ControllerError(result.error.code, result.error.message)
