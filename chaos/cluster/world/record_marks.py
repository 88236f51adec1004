"""Identifies simulated records: each has a unique mark among its headers. Pure.

A mark names the sender, the record's number, its key, and whether it deletes that key.
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
    """Return the mark of a stored record. Raise `InvariantBroken` unless the record is unchanged."""
    mark = dict(headers).get(_HEADER)
    if mark is None or key != record_key_of(mark) or (None if value is None else value.rstrip(b".")) != value_of(mark):
        raise InvariantBroken("records are as they were sent", f"{key!r}: {value!r}, marked {mark!r}")
    return mark
