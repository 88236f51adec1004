"""The latest offset of each key, and of each producer, in a stretch of a log, in bounded memory. Pure."""

from collections.abc import Sequence
from hashlib import blake2b

LONGEST_PLAIN_KEY_BYTES = 32
DIGEST_BYTES = 16
DEFAULT_MAX_KEYS = 1_000_000


class KeyMap:
    """Latest offsets, fed batch by batch in log order. Invariant: knows every key of [first_dirty, end).

    Long keys are held as digests: integers, so that no plain key can equal one.
    """

    def __init__(self, first_dirty: int, max_keys: int = DEFAULT_MAX_KEYS) -> None:
        self.end = first_dirty
        self.last_offsets: dict[int, int] = {}  # of each producer's last batch in the stretch
        self._max_keys = max_keys
        self._latest: dict[bytes | int | None, int] = {}

    def __len__(self) -> int:
        return len(self._latest)

    def add(self, keys: Sequence[bytes | None], offsets: Sequence[int], end: int) -> bool:
        """Add a whole batch that ends at `end`. Return False, changing nothing, if it has too many new keys.

        Always accept the first batch with keys, so that every compaction makes progress.
        """
        latest = dict(zip(_identities(keys), offsets, strict=True))
        latest.pop(None, None)
        if self._latest and len(self._latest) + len(latest) > self._max_keys:
            new_keys = sum(key not in self._latest for key in latest)
            if len(self._latest) + new_keys > self._max_keys:
                return False
        self._latest.update(latest)
        self.end = end
        return True

    def skip(self, end: int) -> None:
        """Skip a batch without keys that ends at `end`."""
        self.end = end

    def latest_of(self, keys: Sequence[bytes | None]) -> list[int | None]:
        """Return the latest offset of each of `keys`; None for an unknown key."""
        return list(map(self._latest.get, _identities(keys)))


def _identities(keys: Sequence[bytes | None]) -> Sequence[bytes | int | None]:
    try:
        # Raises at the first null. Nearly always all keys are short, and then no key needs work of its own.
        if max(map(len, keys), default=0) <= LONGEST_PLAIN_KEY_BYTES:  # type: ignore[arg-type]
            return keys
    except TypeError:
        pass
    return [key if key is None or len(key) <= LONGEST_PLAIN_KEY_BYTES else _digest(key) for key in keys]


def _digest(key: bytes) -> int:
    return int.from_bytes(blake2b(key, digest_size=DIGEST_BYTES).digest())
