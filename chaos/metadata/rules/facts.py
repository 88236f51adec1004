"""Facts about a metadata cluster that only its simulation knows: requests made, and the condition of disks. Pure.

Metadata records state what holds from now on, but not why. The checker looks up the reasons here.
"""

from collections import Counter
from uuid import UUID

from lograft.metadata.image.partition import BrokerId, TopicId

PartitionKey = tuple[TopicId, int]
Target = tuple[int, ...]


class Facts:
    """Callers report an action here before they take it, and withdraw a request that was certainly refused."""

    def __init__(self) -> None:
        self.corrupt_replicas: dict[tuple[PartitionKey, BrokerId], None] = {}  # reported, or about to be
        self.clean_epochs: dict[UUID, int | None] = {}  # by process: the epoch in its clean-shutdown marker
        self.starts: dict[UUID, int] = {}  # by process: its position in the order of starts
        self.chosen_topics: dict[TopicId, None] = {}  # topics whose replicas a client chose instead of the controller
        self.targets: Counter[tuple[PartitionKey, Target]] = Counter()
        self.cancels: Counter[PartitionKey] = Counter()
        self.unclean_elections: Counter[PartitionKey] = Counter()
        self.unregistrations: Counter[BrokerId] = Counter()

    def process_started(self, incarnation: UUID, clean_epoch: int | None) -> None:
        self.clean_epochs[incarnation] = clean_epoch
        self.starts[incarnation] = len(self.starts)

    def is_target(self, key: PartitionKey, replicas: tuple[BrokerId, ...]) -> bool:
        return self.targets[key, tuple(replicas)] > 0
