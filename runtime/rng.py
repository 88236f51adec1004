"""Dice. Everything random in a node comes from the one `Rng` it was given."""

import os
import random
from uuid import UUID


class Rng(random.Random):
    """A seeded source: the same seed gives the same numbers, so a simulated cluster replays exactly."""

    def uuid(self) -> UUID:
        """Return a random (version 4) UUID."""
        return UUID(int=self.getrandbits(128), version=4)

    def secret_bytes(self, count: int) -> bytes:
        """What nobody can foresee who saw all that came before; in simulation, as foreseeable as the rest."""
        return self.randbytes(count)

    def fork(self) -> "Rng":
        """Return a new source whose numbers follow from this one's, but do not share them."""
        return Rng(self.getrandbits(64))


class SystemRng(Rng):
    """Production's. Its numbers follow from each other, its secrets do not."""

    def secret_bytes(self, count: int) -> bytes:
        return os.urandom(count)

    def fork(self) -> "SystemRng":
        return SystemRng(self.getrandbits(64))


def system_rng() -> Rng:
    """Return a source no one can predict the seed of: production's."""
    return SystemRng(int.from_bytes(os.urandom(32), "big"))
