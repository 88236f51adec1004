"""Flow control: how much a broker may send before the consumer has taken earlier data. Pure."""


class FetchCredit:
    """The credit of one broker. Granted credit and received data not yet taken are together at most `window_bytes`,
    except that the last batch may exceed the credit left."""

    def __init__(self, window_bytes: int) -> None:
        self._window_bytes = window_bytes
        self._granted_bytes = 0  # and not used yet; below 0 after a batch that exceeded it
        self.held_bytes = 0

    def stream_started(self) -> None:
        """A new stream begins without credit."""
        self._granted_bytes = 0

    def received(self, size_bytes: int) -> None:
        self._granted_bytes -= size_bytes
        self.held_bytes += size_bytes

    def freed(self, size_bytes: int) -> None:
        """Release data that is no longer held."""
        self.held_bytes -= size_bytes
        assert self.held_bytes >= 0

    def grant(self) -> int:
        """Return how much credit to grant now, and count it as granted. Return 0 until it is worth a message."""
        grant_bytes = self._window_bytes - self.held_bytes - self._granted_bytes
        if grant_bytes < self._window_bytes // 4:
            return 0
        self._granted_bytes += grant_bytes
        return grant_bytes
