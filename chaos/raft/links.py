"""Links between simulated Raft nodes: delay, loss and duplication of messages."""

from lograft.chaos.raft.weather import Weather
from lograft.runtime.rng import Rng


class RaftLinks:
    """Links between nodes, by node id. Directions are independent, and messages may be reordered."""

    def __init__(self, rng: Rng) -> None:
        self._rng = rng
        self._cuts: dict[tuple[int, int], None] = {}

    def cut(self, sender_id: int, receiver_id: int) -> None:
        self._cuts[sender_id, receiver_id] = None

    def heal(self) -> None:
        self._cuts.clear()

    def is_cut(self, sender_id: int, receiver_id: int) -> bool:
        return (sender_id, receiver_id) in self._cuts

    def delay_us(self, weather: Weather) -> int:
        if self._rng.random() < weather.long_delay_probability:
            return int(self._rng.random() * weather.long_delay_ms * 1000)
        return int(self._rng.uniform(*weather.delay_ms) * 1000)

    def is_lost(self, weather: Weather) -> bool:
        return self._rng.random() < weather.loss_probability

    def is_duplicated(self, weather: Weather) -> bool:
        return self._rng.random() < weather.duplicate_probability

    def is_noticed(self, node_id: int, other_id: int) -> bool:
        """Return whether `node_id` notices at once that the other node is gone."""
        return self._rng.random() < 0.7 and not self.is_cut(other_id, node_id)
