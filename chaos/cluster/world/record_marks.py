"""How a simulated record is known: each has a mark, which no other has, among its headers. Pure.

A mark says who sent the record, which of its records it is, what its key is, and whether it deletes that.
"""

from collections.abc import Iterable

from lograft.chaos.harness.failures import InvariantBroken

_HEADER = "mark"
_DELETES = b"-"
_STORES = b"+"


def mark_for(sender: str, number: int, record_key: bytes, *, is_deletion: bool) -> bytes:
    return b"/".join([sender.encode(), b"%d" % number, record_key, _DELETES if is_deletion else _STORES])


def record_key_of(mark: bytes) -> bytes:
    return mark.split(b"/")[2]


def is_deletion(mark: bytes) -> bool:
    return mark.endswith(_DELETES)


def value_of(mark: bytes, padding_bytes: int = 0) -> bytes | None:
    return None if is_deletion(mark) else mark + b"." * padding_bytes


def headers_of(mark: bytes) -> list[tuple[str, bytes | None]]:
    return [(_HEADER, mark)]


def mark_of(key: bytes | None, value: bytes | None, headers: Iterable[tuple[str, bytes | None]]) -> bytes:
    """Of a record as it was found, which is as it was sent."""
    mark = dict(headers).get(_HEADER)
    if mark is None or key != record_key_of(mark) or (None if value is None else value.rstrip(b".")) != value_of(mark):
        raise InvariantBroken("records are as they were sent", f"{key!r}: {value!r}, marked {mark!r}")
    return mark
