"""Deletion of a topic. Pure."""

from dataclasses import dataclass

from lograft.metadata.decisions.checks import check_may_change, known_topic
from lograft.metadata.decisions.decision import Decision
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import TopicId
from lograft.metadata.image.records import TopicDeleted


@dataclass(frozen=True, slots=True)
class DeletedTopic:
    """`name` None: deleted before, perhaps by an earlier attempt of the same request."""

    topic_id: TopicId
    name: str | None


def delete_topic(
    image: ClusterImage, topic_id: TopicId, *, is_internal_request: bool = False
) -> Decision[DeletedTopic]:
    """Delete the topic of that id, with its partitions and its configuration.

    By id, never by name: a retry does not delete a topic of the same name that was created meanwhile.
    """
    if topic_id in image.deleted_topics:
        return Decision((), DeletedTopic(topic_id, None))
    topic = known_topic(image, topic_id)
    check_may_change(topic, is_internal_request=is_internal_request)
    return Decision((TopicDeleted(topic_id),), DeletedTopic(topic_id, topic.name))
