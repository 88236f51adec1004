"""Randomness. Everything random in a node comes from its one `Rng`."""

import os
import random
from uuid import UUID


class Rng(random.Random):
    """A seeded source: the same seed gives the same numbers, so a simulated cluster replays exactly."""

    def uuid(self) -> UUID:
        """Return a random (version 4) UUID."""
        return UUID(int=self.getrandbits(128), version=4)

    def secret_bytes(self, count: int) -> bytes:
        """Return bytes that earlier output cannot predict. In simulation they are as predictable as all others."""
        return self.randbytes(count)

    def fork(self) -> "Rng":
        """Return a new source, seeded from this one."""
        return Rng(self.getrandbits(64))


class SystemRng(Rng):
    """The production source. Its numbers are pseudo-random; its secrets come from the operating system."""

    def secret_bytes(self, count: int) -> bytes:
        return os.urandom(count)

    def fork(self) -> "SystemRng":
        return SystemRng(self.getrandbits(64))


def system_rng() -> Rng:
    """Return the production source, with an unpredictable seed."""
    return SystemRng(int.from_bytes(os.urandom(32), "big"))
