"""A decision of the controller: records and an answer. Pure.

A decision is a function of the image (plus the request, and dice where needed): it returns the records that make the
change and the answer to give once they are committed, or raises `ControllerError`. It changes nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.records import Record

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Decision(Generic[T]):
    """`records` empty: nothing changes; the answer still waits until its basis is committed."""

    records: tuple[Record, ...]
    answer: T


Decide: TypeAlias = Callable[[ClusterImage], Decision[T]]
