"""What only the simulated world knows of a metadata cluster: what was asked for, and what became of disks. Pure.

The records of the metadata say what is so from now on, not why. The checker asks here whether there was a reason.
"""

from collections import Counter
from uuid import UUID

from lograft.metadata.image.partition import BrokerId, TopicId

PartitionKey = tuple[TopicId, int]
Target = tuple[int, ...]


class Facts:
    """Told by whoever does a thing, before it is done; what was refused for sure is taken back."""

    def __init__(self) -> None:
        self.corrupt_replicas: dict[tuple[PartitionKey, BrokerId], None] = {}  # reported, or about to be
        self.clean_epochs: dict[UUID, int | None] = {}  # of each process: what its clean-shutdown marker said
        self.starts: dict[UUID, int] = {}  # of each process: its place in the order in which they were started
        self.chosen_topics: dict[TopicId, None] = {}  # whose replicas somebody named, instead of the controller
        self.targets: Counter[tuple[PartitionKey, Target]] = Counter()
        self.cancels: Counter[PartitionKey] = Counter()
        self.unclean_elections: Counter[PartitionKey] = Counter()
        self.unregistrations: Counter[BrokerId] = Counter()

    def process_started(self, incarnation: UUID, clean_epoch: int | None) -> None:
        self.clean_epochs[incarnation] = clean_epoch
        self.starts[incarnation] = len(self.starts)

    def is_target(self, key: PartitionKey, replicas: tuple[BrokerId, ...]) -> bool:
        return self.targets[key, tuple(replicas)] > 0
