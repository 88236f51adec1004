"""Logs on a broker's disks that the metadata have no place for: removed if that is what they say, else put aside."""

from contextlib import suppress

from lograft.broker.hosting.log_directories import LogDirectories
from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.partition import BrokerId, TopicId
from lograft.runtime.disk.disk_writer import DiskFailed


async def settle_strays(directories: LogDirectories, image: ClusterImage, broker_id: BrokerId) -> None:
    """Once, before logs are opened, with an image that has the broker's own registration."""
    for name in directories.names():
        topic_id = TopicId(name.topic_id)
        partition = image.partition(topic_id, name.partition)
        wanted = partition.directory_of(broker_id) if partition is not None else None
        chosen = directories.choose(name, wanted) if wanted is not None else None
        is_gone = partition is not None or topic_id in image.deleted_topics
        for directory in directories.copies(name):
            if directory is chosen:
                continue
            with suppress(DiskFailed):  # who opens something there finds out
                if wanted is not None:
                    await directories.quarantine(directory, name, "the replica is in another directory")
                elif is_gone:
                    await directories.remove(directory, name)
                else:
                    await directories.quarantine(directory, name, "the metadata know no such partition")
