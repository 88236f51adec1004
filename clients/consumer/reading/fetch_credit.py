"""How much a broker may send before a consumer has taken what came. Pure."""


class FetchCredit:
    """Of one broker. What it may still send and what is held here, not taken yet, are together at most `window_bytes`;
    the last batch may take more than was left."""

    def __init__(self, window_bytes: int) -> None:
        self._window_bytes = window_bytes
        self._granted_bytes = 0  # and nothing came for it yet; below 0 after a batch that was too large for it
        self.held_bytes = 0

    def stream_started(self) -> None:
        """A new stream begins without credit."""
        self._granted_bytes = 0

    def received(self, size_bytes: int) -> None:
        self._granted_bytes -= size_bytes
        self.held_bytes += size_bytes

    def freed(self, size_bytes: int) -> None:
        """Some of what came is not held any more."""
        self.held_bytes -= size_bytes
        assert self.held_bytes >= 0

    def grant(self) -> int:
        """How much to grant now; it counts as granted. Not for every few bytes: 0 until it is worth a message."""
        grant_bytes = self._window_bytes - self.held_bytes - self._granted_bytes
        if grant_bytes < self._window_bytes // 4:
            return 0
        self._granted_bytes += grant_bytes
        return grant_bytes
