"""Since when an index that was heard of is not reached. Pure."""


class Lag:
    """Who keeps up is always a little behind the latest; what counts is how long it takes to reach what was heard
    once."""

    def __init__(self) -> None:
        self._mark = 0
        self._since_ms: int | None = None

    def heard(self, index: int, own_index: int, now_ms: int) -> None:
        """`index` was heard of; `own_index` is how far we are."""
        if self.behind_since_ms(own_index) is None and own_index < index:
            self._mark, self._since_ms = index, now_ms

    def behind_since_ms(self, own_index: int) -> int | None:
        """Since when we know of something that is not reached; None if that is reached."""
        if own_index >= self._mark:
            self._since_ms = None
        return self._since_ms

    def restart(self, now_ms: int) -> None:
        """Begin to count anew, as something has changed."""
        if self._since_ms is not None:
            self._since_ms = now_ms
