"""What a decision of the controller consists of. Pure.

A decision is a function of the image (and what it is asked, and dice where it needs them): it returns the records that
bring the change about and the answer to give once they are committed, or raises `ControllerError`. It changes nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.records import Record

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Decision(Generic[T]):
    """`records` empty: nothing is to change; the answer still waits until what it was based on is committed."""

    records: tuple[Record, ...]
    answer: T


Decide: TypeAlias = Callable[[ClusterImage], Decision[T]]
