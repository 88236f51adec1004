"""The metadata as it will be when all that is under way has come through."""

import asyncio
from dataclasses import dataclass, field

from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.records import Operation, Record
from lograft.metadata.image.state_machine import MetadataMachine
from lograft.rpc.coded_error import ControllerError


@dataclass(slots=True, eq=False)
class PendingOperation:
    """An operation that is decided, and its fate once that is known: the index it is committed at, or an error."""

    operation: Operation
    outcome: "asyncio.Future[int | ControllerError]" = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    async def wait(self) -> int | ControllerError:
        """Several may; one that is cancelled takes nothing from the others."""
        return await asyncio.shield(self.outcome)


class PendingOperations:
    """What the leader of `term` decides on: the committed image, and its own operations that are not committed yet, in
    the order they were decided."""

    def __init__(self, term: int, machine: MetadataMachine) -> None:
        self.term = term
        self._machine = machine
        self._image = machine.image.copy()
        # What `_image` has beyond the committed image; the first operation may be in both.
        self._chain: dict[PendingOperation, None] = {}
        self._is_broken = False

    @property
    def image(self) -> ClusterImage:
        """For reading, until something else can happen."""
        if self._is_broken:
            self._mend()
        latest = self.latest
        expected = latest.operation.base_sequence + 1 if latest is not None else self._machine.image.sequence
        assert self._image.sequence == expected, f"at {self._image.sequence}, not {expected}"
        return self._image

    @property
    def latest(self) -> PendingOperation | None:
        """The last operation in the image whose fate is not known: if that comes through, all before it have."""
        return next(reversed(self._chain), None)

    def begin(self, records: tuple[Record, ...]) -> PendingOperation:
        """An operation of `records`, decided on the image as it is."""
        image = self.image
        in_flight = PendingOperation(Operation(image.sequence, records))
        took_effect = image.apply_operation(in_flight.operation)
        assert took_effect
        self._chain[in_flight] = None
        return in_flight

    def end(self, in_flight: PendingOperation, outcome: int | ControllerError) -> None:
        """Its fate is known. An error: it has no effect, and so none of those decided on it has; or, if even that is
        not known, this term is over."""
        in_flight.outcome.set_result(outcome)
        was_seen = in_flight in self._chain
        self._chain.pop(in_flight, None)
        if was_seen and isinstance(outcome, ControllerError):
            self._is_broken = True

    def _mend(self) -> None:
        """Put off until someone looks: when one fails, many do."""
        self._image = self._machine.image.copy()
        kept = [in_flight for in_flight in self._chain if self._image.apply_operation(in_flight.operation)]
        self._chain = dict.fromkeys(kept)
        self._is_broken = False
