"""The metadata as Raft's state machine: every committed operation, applied to one image.

machine = MetadataMachine()
node = RaftNode(runtime, store, state, transport, machine)
node.observe(machine)  # before all others, so that they find its index up to date
"""

from collections.abc import Callable
from dataclasses import dataclass

from lograft.metadata.image.cluster_image import ClusterImage
from lograft.metadata.image.delta_buffer import Delta, DeltaBuffer
from lograft.metadata.image.record_codec import decode_operation
from lograft.metadata.image.records import Record
from lograft.metadata.image.snapshot import decode_snapshot, encode_snapshot
from lograft.raft.driver.observers import NodeObserver

_INDEX_BYTES = 8


@dataclass(frozen=True, slots=True)
class Applied:
    """The result of a committed operation. Without effect: it was decided on another state than the present one."""

    index: int
    took_effect: bool


class MachineListener:
    """Override the events of interest. Called on the loop, right after the event; must return at once, and
    not raise."""

    def applied(self, index: int, records: tuple[Record, ...]) -> None:
        """The operation at `index` took effect: these records."""

    def restored(self, index: int) -> None:
        """The image was replaced by one as of `index`: the changes are unknown."""

    def advanced(self, index: int) -> None:
        """Everything up to `index` is applied; called once for all entries that came together."""


class MetadataMachine(NodeObserver):
    """The committed `image`, the last `index` up to which it is known, and the latest `deltas`.

    `index` never goes back. It may lag behind the Raft log for a moment, when entries follow that are not for the state
    machine; those change nothing, so the image is as of both.
    """

    def __init__(self, deltas: DeltaBuffer | None = None) -> None:
        self.image = ClusterImage()
        self.index = 0
        self.deltas = deltas if deltas is not None else DeltaBuffer()
        self._listeners: list[MachineListener] = []

    def listen(self, listener: MachineListener) -> None:
        """Report events to `listener` from now on."""
        self._listeners.append(listener)

    # -- what the Raft node asks of it

    def apply(self, index: int, data: bytes) -> Applied:
        """Apply one entry. Bytes that are no operation are a broken invariant: every replica must apply every committed
        entry."""
        assert index > self.index, f"operation {index} after {self.index}"
        operation = decode_operation(data)
        took_effect = self.image.apply_operation(operation)
        self.index = index
        if took_effect:
            self.deltas.add(Delta(index, data))
            for listener in self._listeners:
                listener.applied(index, operation.records)
        return Applied(index, took_effect)

    def snapshot(self) -> Callable[[], bytes]:
        index, image = self.index, self.image.copy()
        return lambda: index.to_bytes(_INDEX_BYTES, "big") + encode_snapshot(image)

    def restore(self, data: bytes) -> None:
        self.image = decode_snapshot(data[_INDEX_BYTES:])
        # Our index may be higher than the snapshot's: by entries that changed nothing.
        self.index = max(self.index, int.from_bytes(data[:_INDEX_BYTES], "big"))
        self.deltas.restart(self.index)
        for listener in self._listeners:
            listener.restored(self.index)

    # -- what the Raft node tells

    def committed(self, index: int) -> None:
        """Note the commit of all entries up to `index`, those that are not for the state machine included. Called after
        they were applied."""
        assert index >= self.index, f"{index} committed after {self.index}"
        self.index = index
        for listener in self._listeners:
            listener.advanced(index)
