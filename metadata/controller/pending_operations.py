"""The metadata as it will be once all pending operations are committed."""

import asyncio
from dataclasses import dataclass, field

from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.records import Operation, Record
from lograft.metadata.image.state_machine import MetadataMachine
from lograft.rpc.coded_error import ControllerError


@dataclass(slots=True, eq=False)
class PendingOperation:
    """A decided operation, and its fate once known: the index of its commit, or an error."""

    operation: Operation
    outcome: "asyncio.Future[int | ControllerError]" = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    async def wait(self) -> int | ControllerError:
        """Wait for the fate. Several callers may wait; cancelling one does not affect the others."""
        return await asyncio.shield(self.outcome)


class PendingOperations:
    """The committed image plus the own operations of the leader of `term` that are not committed yet, in the order of
    their decisions."""

    def __init__(self, term: int, machine: MetadataMachine) -> None:
        self.term = term
        self._machine = machine
        self._image = machine.image.copy()
        # What `_image` has beyond the committed image; the first operation may be in both.
        self._chain: dict[PendingOperation, None] = {}
        self._is_broken = False

    @property
    def image(self) -> ClusterImage:
        """The image with all pending operations, to be read without an await."""
        if self._is_broken:
            self._mend()
        latest = self.latest
        expected = latest.operation.base_sequence + 1 if latest is not None else self._machine.image.sequence
        assert self._image.sequence == expected, f"at {self._image.sequence}, not {expected}"
        return self._image

    @property
    def latest(self) -> PendingOperation | None:
        """The last operation of unknown fate in the image: if it commits, all before it have committed."""
        return next(reversed(self._chain), None)

    def begin(self, records: tuple[Record, ...]) -> PendingOperation:
        """Add an operation of `records`, decided on the present image."""
        image = self.image
        in_flight = PendingOperation(Operation(image.sequence, records))
        took_effect = image.apply_operation(in_flight.operation)
        assert took_effect
        self._chain[in_flight] = None
        return in_flight

    def end(self, in_flight: PendingOperation, outcome: int | ControllerError) -> None:
        """Note the fate of an operation. After an error neither it nor any operation decided on top of it has an
        effect; or, if even that is unknown, this term is over."""
        in_flight.outcome.set_result(outcome)
        was_seen = in_flight in self._chain
        self._chain.pop(in_flight, None)
        if was_seen and isinstance(outcome, ControllerError):
            self._is_broken = True

    def _mend(self) -> None:
        """Rebuild the image when it is next read: when one operation fails, many do."""
        self._image = self._machine.image.copy()
        kept = [in_flight for in_flight in self._chain if self._image.apply_operation(in_flight.operation)]
        self._chain = dict.fromkeys(kept)
        self._is_broken = False
