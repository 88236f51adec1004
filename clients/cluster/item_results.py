"""Responses with one result or error per requested item."""

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

from lograft.clients.errors import LograftError, error_of
from lograft.proto.errors_pb2 import ErrorDetail

Item = TypeVar("Item")


class ItemResult(Protocol):
    """The result of one item of a request."""

    @property
    def error(self) -> ErrorDetail: ...

    def HasField(self, field_name: Any, /) -> bool: ...


Result = TypeVar("Result", bound=ItemResult)


def error_in(result: ItemResult) -> LograftError | None:
    return error_of(result.error) if result.HasField("error") else None


def is_retriable(result: ItemResult, *, repeatable: bool = True) -> bool:
    """Return True if the item can be retried safely: an item whose outcome is unknown only if it is `repeatable`."""
    error = error_in(result)
    return error is not None and error.retriable and (repeatable or not error.outcome_unknown)


def checked(result: Result) -> Result:
    error = error_in(result)
    if error is not None:
        raise error
    return result


def only(results: Sequence[Item | LograftError]) -> Item:
    (result,) = results
    if isinstance(result, LograftError):
        raise result
    return result
